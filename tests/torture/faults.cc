// System calls and allocations that fail, and disks that fill up.
#include <fmt/format.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "torture/judge.h"
#include "torture/tiny_run.h"

namespace lamina::torture {
namespace fs = std::filesystem;
namespace {

struct Call {
  std::string name;
  std::vector<std::string> actions;
};

const std::vector<Call>& calls() {
  static const std::vector<Call> all = {
      {"open", {"EIO", "EMFILE", "ENFILE", "EACCES", "ENOSPC", "EROFS"}},
      {"read", {"EIO", "ESTALE", "EINTR", "short"}},
      {"write", {"EIO", "ENOSPC", "EDQUOT", "EFBIG", "EINTR", "short"}},
      {"fsync", {"EIO", "ENOSPC", "EDQUOT"}},
      {"rename", {"EIO", "ENOSPC", "EACCES", "EROFS", "EBUSY"}},
      {"mmap", {"ENOMEM", "ENODEV", "EACCES"}},
      {"unlink", {"EIO", "EBUSY", "EACCES"}},
      {"mkdir", {"EIO", "ENOSPC", "EACCES", "EROFS"}},
      {"flock", {"EINTR", "ENOLCK"}},
  };
  return all;
}

// The path of the faults: usually the run directory, sometimes input files.
std::string place_of_fault(Random& random) {
  static const std::vector<std::string> places = {"/out/",
                                                  "/out/",
                                                  "/out/",
                                                  "/out/checkpoints",
                                                  "/out/checkpoints",
                                                  "optimizer.safetensors",
                                                  "manifest.json",
                                                  "metrics.jsonl",
                                                  "log.txt",
                                                  "config.toml",
                                                  "text.txt",
                                                  "run.toml",
                                                  ".lamina.so"};
  return random.pick(places);
}

bool is_transparent(const Fault& fault) {
  return fault.action == "short" ||
         (fault.action == "EINTR" && (fault.calls == "read" || fault.calls == "write"));
}

// True for a call that writes a checkpoint or removes an old one. Its failure gives only a warning,
// except in the last save, which has no successor.
bool is_part_of_save(const Ended& ended) {
  const std::string& path = ended.struck_path;
  // If the file system refuses a lock, the program continues without it.
  return ended.struck_call != "flock" && path.find("/checkpoints/step-") != path.npos &&
         (path.find(".partial") != path.npos || ended.struck_call == "rename");
}
bool is_part_of_removal(const Ended& ended) {
  return ended.struck_path.find(".deleting") != std::string::npos;
}
bool is_last_save(const Ended& ended) {
  return ended.struck_path.find(fmt::format("/step-{:08}", kSteps)) != std::string::npos;
}

void expect_named_path(const Ended& ended, const std::string& doing) {
  const std::string line = error_line(ended);
  if (ended.code != 0 && line.find('/') == line.npos &&
      line.find(fs::path(ended.struck_path).filename().string()) == line.npos)
    throw Failure(doing + ": the error names no path", last_words(ended));
}

void failing_calls(Case& c) {
  const Call& call = c.random.pick(calls());
  Launch launch = train(c);
  launch.fault = {.calls = call.name,
                  .path = place_of_fault(c.random),
                  .first = 1 + c.random.below(c.random.chance(0.4) ? 4 : 120),
                  .times = c.random.chance(0.2) ? 0u : 1u,
                  .action = c.random.pick(call.actions)};
  if (c.random.chance(0.5)) copy_folder(half_run(c.place), out_of(c));
  // The program may retry a call that is always interrupted without end.
  if (launch.fault.action == "EINTR") launch.fault.times = 1 + c.random.below(3);
  const Ended ended = run(launch);
  const std::string doing = fmt::format("{} fails: {}", launch.fault.calls, launch.fault.action);
  const bool saving = ended.struck() && is_part_of_save(ended);
  const bool harmless = is_part_of_removal(ended) || (saving && !is_last_save(ended));
  if (is_transparent(launch.fault) || (harmless && launch.fault.times == 1))
    expect_end(ended, {0}, doing);
  else
    expect_end(ended, {0, 2, 4, 5, 7, 8}, doing);
  if (ended.struck() && ended.code != 0) expect_named_path(ended, doing);
  if (ended.code == 0 && !is_transparent(launch.fault) && saving &&
      ended.err.find("warning: ") == std::string::npos)
    throw Failure(doing + ": a save failed without a word", ended.struck_path);
  expect_unharmed(c, doing);
}

// Small uses of every part of the program.
Launch any_command(Case& c) {
  const std::string model = half_run(c.place);
  const std::vector<std::vector<std::string>> all = {
      {"config", "show", run_file(c.place)},
      {"plugin", "list"},
      {"plan", model},
      {"ckpt", "verify", model},
      {"ckpt", "ls", model},
      {"decode", "-m", model, "-p", "Then", "-n", "2"},
      {"decode", "-m", c.place.source + "/tests/golden/hf/llama_dynamic", "--ids", "1,2,3", "-n",
       "1"},
      {"train", run_file(c.place), "--out", out_of(c), "--set", "train.steps=2"},
  };
  return command(c, c.random.pick(all));
}

void failing_allocations(Case& c) {
  Launch launch = any_command(c);
  const bool threads = c.random.chance(0.05);
  if (threads) launch.words.back() = "2";
  const std::string doing = fmt::format("{} with {}", launch.words[1],
                                        threads ? "a thread refused" : "an allocation refused");
  launch.fault = {.calls = threads ? "thread" : "malloc",
                  .first = std::numeric_limits<std::int64_t>::max(),
                  .action = "ENOMEM"};
  const Ended whole = run(launch);
  expect_end(whole, {0}, fmt::format("{} without faults", launch.words[1]));
  fs::remove_all(out_of(c));
  launch.fault.first = 1 + c.random.below(whole.num_calls);
  launch.fault.times = c.random.chance(0.3) ? 0 : 1;
  launch.memory_bytes = std::uint64_t{8} << 30;
  const Ended ended = run(launch);
  expect_end(ended, {0, 7}, doing);
  // `ckpt ls` prints ages, `plan` the memory of this number of threads.
  const bool varies = launch.words[2] == "ls" || (threads && launch.words[1] == "plan");
  if (ended.code == 0 && !varies && ended.out != whole.out)
    throw Failure(doing + ": exit code 0, but another output", ended.out);
}

// A separate file system on <folder>/out; unmounted by the destructor.
class SmallDisk {
 public:
  SmallDisk(std::string path, const std::string& options) : path_(std::move(path)) {
    fs::create_directories(path_);
    if (::mount("tmpfs", path_.c_str(), "tmpfs", 0, options.c_str()) != 0)
      throw Skipped(fmt::format("a tmpfs cannot be mounted here: {}", std::strerror(errno)));
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() { ::umount2(path_.c_str(), MNT_DETACH); }

  void grow() { ::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, "size=64m,nr_inodes=10000"); }

 private:
  std::string path_;
};

void full_disk(Case& c) {
  const std::size_t kib = 4 + c.random.below(c.random.chance(0.5) ? 300 : 3000);
  const std::size_t inodes = c.random.chance(0.25) ? 4 + c.random.below(40) : 1000;
  SmallDisk disk(out_of(c), fmt::format("size={}k,nr_inodes={}", kib, inodes));
  const std::string doing = "training on a disk too small";
  expect_end(run(train(c)), {0, 4}, doing);
  disk.grow();
  expect_unharmed(c, doing);
}

void file_size_limit(Case& c) {
  Launch launch = train(c);
  launch.max_file_bytes = 4096 + c.random.below(500'000);
  if (c.random.chance(0.5)) copy_folder(half_run(c.place), out_of(c));
  const std::string doing = "training with a limit on file sizes";
  expect_end(run(launch), {0, 4}, doing);
  expect_unharmed(c, doing);
}

}  // namespace

std::vector<Kind> fault_kinds() {
  return {
      {"faults-io", "one system call fails; an error that names the file, or a warning; resumable",
       2.5, failing_calls},
      {"faults-memory", "the N-th allocation or thread is refused; exit 7 or 0", 1.5,
       failing_allocations},
      {"full-disk", "a tmpfs too small for the run, then larger; exit 0 or 4, resumable", 1,
       full_disk},
      {"file-limit", "RLIMIT_FSIZE below a checkpoint's files; exit 0 or 4, resumable", 0.5,
       file_size_limit}};
}

}  // namespace lamina::torture
