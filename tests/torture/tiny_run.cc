#include "torture/tiny_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "core/error.h"
#include "core/json.h"
#include "torture/judge.h"

namespace lamina::torture {
namespace fs = std::filesystem;
namespace {

std::string text() {
  std::string out;
  for (int i = 0; i < 600; ++i)
    out += fmt::format("{} and line {} has the square {}.\n", i % 7 ? "Then" : "First", i, i * i);
  return out;
}

std::string checkpoint_name(int step) { return fmt::format("step-{:08}", step); }

// The part of a record that does not depend on the clock.
std::string timeless(const std::string& line) {
  return line.substr(0, line.find(",\"perf/step_seconds\""));
}

struct Records {
  std::vector<std::int64_t> steps;           // in the order of the file
  std::map<std::int64_t, std::string> text;  // of the last record of each step
};

// Throws Failure at a line that is not a record.
Records read_metrics(const std::string& path, const std::string& after) {
  Records out;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    if (line.find("\"train/loss\"") == line.npos && line.find("\"eval/loss\"") != line.npos)
      continue;
    try {
      const JsonDocument document = JsonDocument::parse(line, path);
      const std::int64_t step = document.root().at("step").as_int64();
      document.root().at("train/loss").as_double();
      if (auto [at, is_new] = out.text.emplace(step, timeless(line));
          !is_new && at->second != timeless(line))
        throw Failure(fmt::format("{}: step {} has two records that differ", after, step),
                      at->second + "\n" + line);
      out.steps.push_back(step);
    } catch (const Error& e) {
      throw Failure(after + ": a line of metrics.jsonl is not a whole record",
                    line + "\n" + e.what());
    }
  }
  return out;
}

// The unbroken run to compare a case with.
std::string unbroken_run(const Case& c) {
  return c.tunes ? c.place.prepared + "/tuned" : whole_run(c.place);
}

std::string tune_file(const Place& place) { return place.prepared + "/tune.toml"; }

// Returns the seconds of the training.
double train_unbroken(const Case& c) {
  Launch launch = train(c);
  launch.words.resize(3);
  launch.words.insert(launch.words.end(), {"--out", unbroken_run(c)});
  const Ended ended = run(launch);
  expect_end(ended, {0}, "the unbroken run");
  return ended.seconds;
}

void expect_same_file(const Case& c, const std::string& name, const std::string& after) {
  const std::string path = fmt::format("checkpoints/{}/{}", checkpoint_name(kSteps), name);
  if (read_bytes(out_of(c) + "/" + path) != read_bytes(unbroken_run(c) + "/" + path))
    throw Failure(after + ": the result differs from that of the unbroken run", path);
}

void expect_no_leftovers(const Case& c, const std::string& after) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(out_of(c))) {
    const std::string name = entry.path().filename().string();
    for (const char* part : {".partial", ".deleting", ".resumed"})
      if (name.find(part) != name.npos)
        throw Failure(after + ": something is left over in the run directory",
                      entry.path().string());
  }
}

}  // namespace

std::string run_file(const Place& place) { return place.prepared + "/run.toml"; }
std::string text_file(const Place& place) { return place.prepared + "/text.txt"; }
std::string whole_run(const Place& place) { return place.prepared + "/whole"; }
std::string half_run(const Place& place) { return place.prepared + "/half"; }
std::string out_of(const Case& c) { return c.folder + "/out"; }

void prepare(Place& place) {
  fs::create_directories(place.prepared);
  write_bytes(text_file(place), text());
  write_bytes(run_file(place), fmt::format(R"(family = "llama2"
model = {{ vocab_size = 258, hidden_size = 32, intermediate_size = 48, num_hidden_layers = 2, num_attention_heads = 2, max_position_embeddings = 64 }}
data = {{ train = ["{}"], sequence_length = 32 }}
train = {{ steps = {}, batch_size = 4 }}
schedule = {{ kind = "constant" }}
checkpoint = {{ every_steps = 2, keep = 99 }}
optimizer = {{ lr = 1e-3 }}
)",
                                           text_file(place), kSteps));
  write_bytes(tune_file(place), fmt::format(R"(data = {{ train = ["{}"], sequence_length = 32 }}
train = {{ from = "{}", steps = {}, batch_size = 4 }}
schedule = {{ kind = "constant" }}
checkpoint = {{ every_steps = 2, keep = 99 }}
optimizer = {{ lr = 1e-3 }}
)",
                                            text_file(place), whole_run(place), kSteps));
  place.run_seconds = train_unbroken({place, place.prepared, Random("", 0)});
  train_unbroken({place, place.prepared, Random("", 0), true});
  copy_folder(whole_run(place), half_run(place));
  for (const std::string& path : checkpoints(half_run(place)))
    if (fs::path(path).filename() > checkpoint_name(kHalfSteps)) fs::remove_all(path);
  std::ifstream metrics(whole_run(place) + "/metrics.jsonl");
  std::string kept, line;
  for (int step = 0; step < kHalfSteps && std::getline(metrics, line); ++step) kept += line + "\n";
  write_bytes(half_run(place) + "/metrics.jsonl", kept);
}

Launch train(const Case& c) {
  return {.words = {c.place.program, "train", c.tunes ? tune_file(c.place) : run_file(c.place),
                    "--out", out_of(c), "--set", "checkpoint.keep=3"},
          .folder = c.folder,
          .environment = {"LAMINA_PIN=0"}};
}

Launch command(const Case& c, std::vector<std::string> words) {
  words.insert(words.begin(), c.place.program);
  words.insert(words.end(), {"-t", "1"});
  return {.words = std::move(words), .folder = c.folder, .environment = {"LAMINA_PIN=0"}};
}

void expect_unharmed(Case& c, const std::string& after) {
  const std::string then = after + ", then trained on";
  expect_end(run(train(c)), {0}, then);
  expect_result(c, then);
  expect_metrics(c, then);
  expect_no_leftovers(c, then);
  expect_end(run(command(c, {"ckpt", "verify", out_of(c)})), {0}, then + ", ckpt verify");
}

void expect_result(const Case& c, const std::string& after) {
  expect_same_file(c, "model.safetensors", after);
  expect_same_file(c, "optimizer.safetensors", after);
}

void expect_metrics(const Case& c, const std::string& after) {
  const Records expected = read_metrics(unbroken_run(c) + "/metrics.jsonl", "the unbroken run");
  const Records found = read_metrics(out_of(c) + "/metrics.jsonl", after);
  for (const auto& [step, line] : expected.text) {
    const auto at = found.text.find(step);
    if (at == found.text.end())
      throw Failure(after + ": a step is missing in metrics.jsonl", fmt::format("step {}", step));
    if (at->second != line)
      throw Failure(after + ": a record of metrics.jsonl differs from the unbroken run's",
                    at->second + "\n" + line);
  }
  if (found.steps != expected.steps)
    throw Failure(after + ": metrics.jsonl has steps twice or out of order",
                  fmt::format("{}", fmt::join(found.steps, " ")));
}

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  if (!out.flush()) throw fs::filesystem_error("cannot be written", path, std::error_code());
}

void copy_folder(const std::string& from, const std::string& to) {
  fs::copy(from, to, fs::copy_options::recursive);
}

std::vector<std::string> checkpoints(const std::string& run) {
  std::vector<std::string> out;
  for (const fs::directory_entry& entry : fs::directory_iterator(run + "/checkpoints"))
    out.push_back(entry.path().string());
  std::ranges::sort(out);
  return out;
}

}  // namespace lamina::torture
