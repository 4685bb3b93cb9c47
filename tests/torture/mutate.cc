// Every format that the program reads, mutated: the program ends soon, by itself, with a documented
// exit code and an error in the standard form. Accepting unusual input is not a fault.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "io/durable_file.h"
#include "torture/judge.h"
#include "torture/mutation.h"
#include "torture/tiny_run.h"

namespace lamina::torture {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kCpuSeconds = 10;
constexpr std::uint64_t kMemoryBytes = std::uint64_t{4} << 30;

Ended run_limited(Launch launch) {
  launch.cpu_seconds = kCpuSeconds;
  launch.memory_bytes = kMemoryBytes;
  return run(std::move(launch));
}

// Folders below tests/golden/`kind` that contain `file`, sorted.
std::vector<std::string> golden_folders(const Case& c, const std::string& kind,
                                        const std::string& file) {
  std::vector<std::string> out;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(c.place.source + "/tests/golden/" + kind))
    if (fs::exists(entry.path() / file)) out.push_back(entry.path().string());
  std::ranges::sort(out);
  return out;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    out.push_back(entry.path().string());
  std::ranges::sort(out);
  return out;
}

// <folder>/model: a golden model, or any other folder, whose file `name` will be replaced.
std::string linked(const Case& c, const std::string& from, const std::string& name) {
  const std::string to = c.folder + "/model";
  fs::create_directory(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from))
    if (entry.path().filename() != name)
      fs::create_symlink(entry.path(), to + "/" + entry.path().filename().string());
  return to;
}

std::string model_with(Case& c, const std::string& name,
                       std::string (*mutate)(Random&, const std::string&)) {
  const std::string from = c.random.pick(golden_folders(c, "hf", name));
  const std::string to = linked(c, from, name);
  write_bytes(to + "/" + name, mutate(c.random, read_bytes(from + "/" + name)));
  return to;
}

std::string json(Random& random, const std::string& text) { return mutate_json(random, text); }

void decode_mutated(Case& c, const std::string& name,
                    std::string (*mutate)(Random&, const std::string&)) {
  const std::string model = model_with(c, name, mutate);
  expect_end(run_limited(command(c, {"decode", "-m", model, "--ids", "1,2,3", "-n", "1"})),
             {0, 2, 3, 4, 5, 7, 8}, "decode with a mutated " + name);
}

void safetensors(Case& c) { decode_mutated(c, "model.safetensors", mutate_safetensors); }
void index(Case& c) { decode_mutated(c, "model.safetensors.index.json", json); }
void config_json(Case& c) { decode_mutated(c, "config.json", json); }

void verify_mutated(Case& c, const std::string& name,
                    std::string (*mutate)(Random&, const std::string&)) {
  const Ended ended = run_limited(command(c, {"verify", model_with(c, name, mutate)}));
  expect_end(ended, {0, 2, 3, 4, 7}, "verify with a mutated " + name);
  if (ended.code == 0 && ended.out.find(" 0 of 0 ") != ended.out.npos)
    throw Failure("verify with a mutated " + name + ": nothing was compared, and it passed",
                  ended.out);
}

void golden_json(Case& c) { verify_mutated(c, "golden.json", json); }
void golden_safetensors(Case& c) { verify_mutated(c, "golden.safetensors", mutate_safetensors); }

void run_toml(Case& c) {
  const std::string file = c.folder + "/run.toml";
  write_bytes(file, mutate_toml(c.random, read_bytes(run_file(c.place))));
  expect_end(run_limited(command(c, {"config", "show", file})), {0, 2, 4, 5, 8},
             "config show of a mutated run file");
  Launch launch = command(c, {"train", file, "--out", out_of(c), "--set", "train.steps=1", "--set",
                              "train.batch_size=2", "--set", "data.sequence_length=16"});
  const Ended ended = run_limited(launch);
  // A mutated size may be the size of a large model: training without an end is not a fault.
  if (!ended.timed_out) expect_end(ended, {0, 2, 3, 4, 5, 7, 8}, "train with a mutated run file");
}

// Published files are large and similar; the small files of the fuzz target have every feature.
void tokenizer_json(Case& c) {
  std::vector<std::string> seeds;
  for (const std::string& folder : golden_folders(c, "tokenizers", "tokenizer.json"))
    seeds.push_back(folder + "/tokenizer.json");
  if (c.random.chance(0.6)) seeds = files_in(c.place.source + "/tests/fuzz/corpus/tokenizer");
  const std::string to = c.folder + "/tokenizer";
  fs::create_directory(to);
  write_bytes(to + "/tokenizer.json", mutate_json(c.random, read_bytes(c.random.pick(seeds))));
  expect_end(run_limited(command(c, {"train", run_file(c.place), "--out", out_of(c), "--set",
                                     "train.steps=1", "--set", "model.vocab_size=1200", "--set",
                                     fmt::format("data.tokenizer=\"{}\"", to)})),
             {0, 2, 4, 5, 7}, "train with a mutated tokenizer.json");
}

// The half-done run, with `name` of its newest checkpoint mutated. The manifest is updated, so the
// contents are wrong and the checksum is right.
void checkpoint_file(Case& c, const std::string& name,
                     std::string (*mutate)(Random&, std::string)) {
  static const std::string kSelfKey = "\"manifest_xxh3_128\": \"";
  copy_folder(half_run(c.place), out_of(c));
  const std::string newest = checkpoints(out_of(c)).back();
  const std::string manifest = newest + "/manifest.json";
  const std::string before = read_bytes(newest + "/" + name);
  const std::string after = mutate(c.random, before);
  write_bytes(newest + "/" + name, after);
  std::string text = read_bytes(manifest);
  auto replace = [&](const std::string& from, const std::string& to) {
    if (const auto at = text.find(from); at != text.npos) text.replace(at, from.size(), to);
  };
  auto checksum = [](const std::string& of) {
    return io::xxh3_128_hex(std::as_bytes(std::span(of)));
  };
  if (name != "manifest.json") {
    replace(checksum(before), checksum(after));
    const auto at = text.find("\"name\": \"" + name);
    const std::string old_bytes = fmt::format("\"bytes\": {}", before.size());
    if (const auto bytes = text.find(old_bytes, at); at != text.npos && bytes != text.npos)
      text.replace(bytes, old_bytes.size(), fmt::format("\"bytes\": {}", after.size()));
  }
  if (const auto self = text.rfind(kSelfKey); self != text.npos) {
    text.resize(self + kSelfKey.size());
    write_bytes(manifest, text + checksum(text) + "\"\n}\n");
  }
  const std::string doing = " with a mutated " + name;
  expect_end(run_limited(command(c, {"ckpt", "verify", out_of(c)})), {0, 2, 4, 7},
             "ckpt verify" + doing);
  expect_end(run_limited(command(c, {"decode", "-m", out_of(c), "-p", "a", "-n", "1"})),
             {0, 2, 3, 4, 5, 7, 8}, "decode" + doing);
  Launch launch = train(c);
  launch.words.insert(launch.words.end(), {"-t", "1"});
  expect_end(run_limited(launch), {0, 2, 3, 4, 5, 7, 8}, "train" + doing);
}

void manifest(Case& c) { checkpoint_file(c, "manifest.json", mutate_json); }
void model_toml(Case& c) { checkpoint_file(c, "model.toml", mutate_toml); }
void checkpoint_run_toml(Case& c) { checkpoint_file(c, "run.toml", mutate_toml); }
void byte_tokenizer(Case& c) { checkpoint_file(c, "lamina_tokenizer.json", mutate_json); }

void embeddings(Case& c) {
  std::string file(8, '\0');
  const std::string header =
      R"({"embeddings":{"dtype":"F32","shape":[3,32],"data_offsets":[0,384]}})";
  const std::uint64_t header_bytes = header.size();
  std::memcpy(file.data(), &header_bytes, sizeof header_bytes);
  file += header + std::string(384, '\x3d');
  const std::string path = c.folder + "/rows.safetensors";
  write_bytes(path, mutate_safetensors(c.random, file));
  expect_end(run_limited(command(c, {"decode", "-m", half_run(c.place), "--ids", "1,5,5,5,2",
                                     "--placeholder", "5", "--embeddings", path, "-n", "1"})),
             {0, 2, 3, 4, 5, 7}, "decode with mutated embeddings");
}

// Listed only: `inspect` may execute a plugin's code, and mutated code may do anything.
void plugin(Case& c) {
  fs::create_directory(c.folder + "/plugins");
  std::string bytes = read_bytes(c.place.plugins + "/simple.lamina.so");
  if (c.random.chance(0.5)) {  // headers and tables are at both ends
    const std::size_t at =
        c.random.chance(0.5) ? c.random.below(4096) : bytes.size() - 1 - c.random.below(4096);
    bytes[std::min(at, bytes.size() - 1)] = static_cast<char>(c.random.next());
  } else {
    bytes = mutate_bytes(c.random, bytes);
  }
  write_bytes(c.folder + "/plugins/simple.lamina.so", bytes);
  expect_end(run_limited(command(c, {"plugin", "list", "--plugin-path", c.folder + "/plugins"})),
             {0, 8}, "plugin list with a mutated plugin");
}

}  // namespace

std::vector<Kind> mutation_kinds() {
  auto kind = [](const char* format, const char* doc, void (*attempt)(Case&)) {
    return Kind{std::string("mutate-") + format, doc, 0.5, attempt};
  };
  return {
      kind("safetensors", "headers and bytes of model.safetensors; decode", safetensors),
      kind("index", "model.safetensors.index.json; decode", index),
      kind("config", "config.json of every golden model; decode", config_json),
      kind("run-file", "run files; config show, train", run_toml),
      kind("tokenizer", "tokenizer.json of every golden tokenizer; train", tokenizer_json),
      kind("golden-json", "golden.json; verify", golden_json),
      kind("golden", "golden.safetensors; verify", golden_safetensors),
      kind("manifest", "manifest.json, its checksum right; ckpt verify, decode, train", manifest),
      kind("model-toml", "model.toml of a checkpoint, the manifest right", model_toml),
      kind("run-toml", "run.toml of a checkpoint, the manifest right", checkpoint_run_toml),
      kind("byte-tokenizer", "lamina_tokenizer.json, the manifest right", byte_tokenizer),
      kind("embeddings", "rows for decode --embeddings", embeddings),
      kind("plugin", "*.lamina.so; plugin list", plugin)};
}

}  // namespace lamina::torture
