// Files that shrink while they are read, changed checkpoints, foreign files in a run directory, and
// lines without an end.
#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>

#include "torture/judge.h"
#include "torture/tiny_run.h"

namespace lamina::torture {
namespace fs = std::filesystem;
namespace {

void shrink_while_read(Case& c) {
  copy_folder(half_run(c.place), out_of(c));
  const std::string text = c.folder + "/own.txt";
  fs::copy_file(text_file(c.place), text);
  struct Reader {
    Launch launch;
    std::string file;
  };
  Launch own = train(c);
  own.words[4] = c.folder + "/other";
  own.words.insert(own.words.end(), {"--set", fmt::format("data.train=[\"{}\"]", text)});
  const std::string newest = checkpoints(out_of(c)).back();
  const std::vector<Reader> readers = {
      {own, text},
      {train(c), newest + "/model.safetensors"},
      {train(c), newest + "/optimizer.safetensors"},
      {command(c, {"ckpt", "verify", out_of(c)}), newest + "/model.safetensors"},
      {command(c, {"decode", "-m", out_of(c), "-p", "a", "-n", "2"}),
       newest + "/model.safetensors"}};
  Reader reader = c.random.pick(readers);
  reader.launch.fault = {.calls = "mmap,read",
                         .path = reader.file,
                         .first = 1 + c.random.below(2),
                         .action = "delay:100"};
  const std::string doing = fmt::format("{} while {} shrinks", reader.launch.words[1],
                                        fs::path(reader.file).filename().string());
  const std::uintmax_t size = fs::file_size(reader.file);
  Child child(reader.launch);
  while (child.num_struck() == 0 && !child.ends_within(0.001)) {
  }
  fs::resize_file(reader.file, c.random.chance(0.3) ? 0 : c.random.below(size));
  expect_end(child.wait(), {0, 4, 5}, doing);
}

// Changes `path` as disks, users and interrupted copies do; returns a description.
std::string damage(Random& random, const std::string& path, const std::string& older) {
  std::string bytes = read_bytes(path);
  switch (random.below(7)) {
    case 0:
      bytes.resize(random.below(bytes.size()));
      write_bytes(path, bytes);
      return "cut";
    case 1:
      write_bytes(path, "");
      return "emptied";
    case 2:
      fs::remove(path);
      return "removed";
    case 3:
      write_bytes(path, bytes + std::string(1 + random.below(100), '\0'));
      return "grown";
    case 4:
      if (fs::exists(older) && read_bytes(older) != bytes) {
        fs::copy_file(older, path, fs::copy_options::overwrite_existing);
        return "replaced by an older one";
      }
      [[fallthrough]];
    default:
      bytes[random.below(bytes.size())] ^= static_cast<char>(1 << random.below(8));
      write_bytes(path, bytes);
      return "changed in one bit";
  }
}

void damaged_checkpoint(Case& c) {
  static const std::vector<std::string> files = {
      "model.safetensors", "model.safetensors", "optimizer.safetensors", "manifest.json",
      "model.toml",        "run.toml",          "lamina_tokenizer.json"};
  copy_folder(half_run(c.place), out_of(c));
  const std::vector<std::string> all = checkpoints(out_of(c));
  const std::string file = c.random.pick(files);
  const bool every = c.random.chance(0.15);
  std::string how;
  for (std::size_t i = every ? 1 : all.size() - 1; i < all.size(); ++i)
    how = damage(c.random, all[i] + "/" + file, all[i - 1] + "/" + file);
  if (every) fs::remove_all(all[0]);
  const std::string doing =
      fmt::format("{} of {} {}", file, every ? "all checkpoints" : "the newest", how);
  const std::string name = every ? "step-" : fs::path(all.back()).filename().string();

  const Ended verified = run(command(c, {"ckpt", "verify", out_of(c)}));
  expect_end(verified, {4}, doing + ": ckpt verify");
  if ((verified.out + verified.err).find(name) == std::string::npos)
    throw Failure(doing + ": ckpt verify does not name it", last_words(verified));
  expect_end(run(command(c, {"decode", "-m", out_of(c), "-p", "a", "-n", "2"})), {0, 2, 3, 4, 5},
             doing + ": decode");
  const Ended trained = run(train(c));
  if (every)
    expect_end(trained, {2, 4, 5}, doing + ": train");
  else
    expect_end(trained, {0, 2, 4, 5}, doing + ": train");
  if (trained.err.find(name) == std::string::npos)
    throw Failure(doing + ": train does not name it", last_words(trained));
  if (trained.code == 0) expect_result(c, doing + ": train from an older one");
}

// A link or a FIFO in place of a file that a run writes.
void planted_files(Case& c) {
  static const std::vector<std::string> names = {"lock",
                                                 "log.txt",
                                                 "metrics.jsonl",
                                                 "config.toml",
                                                 "config.toml.partial",
                                                 "metrics.superseded.jsonl"};
  const std::string name = c.random.pick(names), planted = out_of(c) + "/" + name,
                    theirs = c.folder + "/theirs";
  const std::string words = "their words\n";
  const bool is_link = c.random.chance(0.7), exists = c.random.chance(0.7);
  if (c.random.chance(0.5)) copy_folder(half_run(c.place), out_of(c));
  fs::create_directories(fs::path(planted).parent_path());
  const std::string kept = c.folder + "/kept";
  if (fs::exists(planted)) fs::rename(planted, kept);
  if (exists) write_bytes(theirs, words);
  if (is_link)
    fs::create_symlink(theirs, planted);
  else if (::mkfifo(planted.c_str(), 0666) != 0)
    throw Skipped("no FIFO can be made here");
  const std::string doing = fmt::format("{} is {}", name, is_link ? "a link" : "a FIFO");
  expect_end(run(train(c)), {0, 4}, doing);
  if (read_bytes(theirs) != (exists ? words : ""))
    throw Failure(doing + ": it was written through", theirs);
  fs::remove_all(planted);
  if (fs::exists(kept)) fs::rename(kept, planted);
  expect_unharmed(c, doing);
}

// A line longer than a record may be, with little memory.
void long_line(Case& c) {
  const bool skips = c.random.chance(0.5);
  std::string lines;
  for (std::size_t i = 0; i < 40; ++i) lines += fmt::format("{{\"text\": \"line {}\"}}\n", i * i);
  const std::size_t before = c.random.below(2) * lines.size();
  const std::string path = c.folder + "/text.jsonl";
  write_bytes(path, lines.substr(0, before) + "{\"text\": \"" +
                        std::string((std::size_t{64} << 20) + c.random.below(100'000'000), 'x') +
                        (c.random.chance(0.5) ? "\"}\n" + lines : "\n" + lines));
  Launch launch = train(c);
  launch.words.insert(
      launch.words.end(),
      {"--set", "data.form=jsonl", "--set", fmt::format("data.train=[\"{}\"]", path), "--set",
       "data.store=none", "--set", "train.steps=2", "--set",
       skips ? "data.bad_records=skip" : "data.bad_records=stop"});
  const std::string doing = "a line of more than 64 MiB";
  const Ended ended = run(launch);
  expect_end(ended, {skips ? 0 : 5}, doing);
  if (!skips && fs::exists(out_of(c))) throw Failure(doing + ": the run began", out_of(c));
}

}  // namespace

std::vector<Kind> damage_kinds() {
  return {
      {"shrink", "a file is cut while it is mapped or read; exit 0, 4 or 5, never SIGBUS", 0.5,
       shrink_while_read},
      {"flip", "bits, lengths and files of a checkpoint change; verify finds it, resume names it",
       1.5, damaged_checkpoint},
      {"planted-files",
       "links and FIFOs in place of a run's files; exit 0 or 4, nothing through them", 0.5,
       planted_files},
      {"long-line", "a record of more than 64 MiB; left out, or exit 5 before the run begins", 0.2,
       long_line}};
}

}  // namespace lamina::torture
