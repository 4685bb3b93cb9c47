// Output files and directories named by the user whose names are taken.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "torture/judge.h"
#include "torture/tiny_run.h"

namespace lamina::torture {
namespace fs = std::filesystem;
namespace {

// Kinds, contents and inodes of all entries of a folder, which must not change. A link's bytes are
// its target.
std::map<std::string, std::string> state_of(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    struct stat status {};
    if (::lstat(entry.path().c_str(), &status) != 0) continue;
    std::string state = fmt::format("{:o} ", status.st_mode);
    if (S_ISREG(status.st_mode)) state += read_bytes(entry.path().string());
    if (S_ISLNK(status.st_mode)) state += fs::read_symlink(entry.path()).string();
    out[entry.path().string()] = std::move(state);
  }
  return out;
}

// Throws Failure with the first path that is new or has changed.
void expect_state(const std::string& folder, const std::map<std::string, std::string>& before,
                  const std::string& doing) {
  for (const auto& [path, state] : state_of(folder)) {
    const auto at = before.find(path);
    if (at == before.end() || at->second != state)
      throw Failure(doing + ": something that must stay was changed", path);
  }
}

// A command of the program that writes the file `path`.
Launch writing_command(Case& c, const std::string& run, const std::string& path,
                       std::string& name) {
  static const std::vector<std::string> all = {"report", "embed", "logprobs", "save"};
  name = c.random.pick(all);
  if (name == "report") return command(c, {"report", run, "-o", path});
  if (name == "embed") return command(c, {"embed", "-m", run, "-p", "a line", "-o", path});
  if (name == "logprobs")
    return command(c, {"eval", "-m", run, "-d", c.folder + "/text.txt", "--logprobs", path});
  write_bytes(c.folder + "/template", "{% for m in messages %}{{ m.content }}{% endfor %}");
  return {.words = {"/bin/bash", "-c",
                    "printf '/save %s\\n' \"$1\" | \"$0\" chat -m \"$2\" --chat-template template",
                    c.place.program, path, run},
          .folder = c.folder,
          .environment = {"LAMINA_PIN=0"}};
}

// Device nodes, FIFOs and links: they remain, and only targets that accept bytes get any.
void odd_targets(Case& c) {
  const std::string node = c.folder + "/node", pipe = c.folder + "/pipe",
                    folder = c.folder + "/there";
  write_bytes(c.folder + "/text.txt", "a line of text\nand another\n");
  fs::create_directory(folder);
  write_bytes(folder + "/file", "");
  static const std::vector<std::string> kinds = {"null",         "full",     "pipe",   "link",
                                                 "link to null", "dangling", "folder", "block"};
  const std::string kind = c.random.pick(kinds);
  std::string path = folder + "/target";
  const auto make_node = [&](const std::string& at, mode_t mode, int major, int minor) {
    if (::mknod(at.c_str(), mode | 0666, ::makedev(major, minor)) != 0)
      throw Skipped("device nodes cannot be made here");
  };
  if (kind == "null") make_node(path, S_IFCHR, 1, 3);
  if (kind == "full") make_node(path, S_IFCHR, 1, 7);
  if (kind == "block") make_node(path, S_IFBLK, 7, 255);
  if (kind == "link to null") make_node(node, S_IFCHR, 1, 3), fs::create_symlink(node, path);
  if (kind == "link") fs::create_symlink(folder + "/file", path);
  if (kind == "dangling") fs::create_symlink(folder + "/nowhere", path);
  if (kind == "folder") fs::create_directory(path);
  std::jthread reader;
  if (kind == "pipe") {
    ::mkfifo(path.c_str(), 0600);
    reader = std::jthread([path] {
      const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      char bytes[4096];
      while (::read(fd, bytes, sizeof bytes) > 0) {
      }
      ::close(fd);
    });
  }
  auto before = state_of(folder);
  std::string name;
  const Ended ended = run(writing_command(c, whole_run(c.place), path, name));
  if (kind == "pipe") {  // releases a reader of a pipe without a writer
    const int fd = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) ::close(fd);
  }
  const std::string doing = fmt::format("{} to a {}", name, kind);
  const bool refused = kind == "dangling" || kind == "folder" || kind == "block";
  if (kind == "full")
    expect_end(ended, {4}, doing);
  else
    expect_end(ended, {refused ? 2 : 0}, doing);
  if (kind == "link") {
    if (read_bytes(folder + "/file").empty()) throw Failure(doing + ": nothing was written", "");
    before.erase(folder + "/file");
    before.emplace(folder + "/file", state_of(folder).at(folder + "/file"));
  }
  expect_state(folder, before, doing);
}

// Names of files inside a run and its checkpoints: none is overwritten.
void run_targets(Case& c) {
  copy_folder(half_run(c.place), out_of(c));
  write_bytes(c.folder + "/text.txt", "a line of text\nand another\n");
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(out_of(c)))
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  std::ranges::sort(files);
  std::string path = c.random.pick(files);
  if (c.random.chance(0.3))
    path = fs::path(path).parent_path().string() + "/./../" +
           fs::path(path).parent_path().filename().string() + "/" +
           fs::path(path).filename().string();
  if (c.random.chance(0.3)) {
    fs::create_symlink(path, c.folder + "/link");
    path = c.folder + "/link";
  }
  const auto before = state_of(out_of(c));
  std::string name;
  const Ended ended = run(writing_command(c, out_of(c), path, name));
  const std::string doing = fmt::format("{} to a file of a run", name);
  expect_end(ended, {2}, doing);
  expect_state(out_of(c), before, doing);
  if (c.random.chance(0.2)) expect_unharmed(c, doing);
}

// A command that writes a directory is killed; the next command with that name leaves only its own
// directory.
void killed_exports(Case& c) {
  const std::string to = c.folder + "/made";
  const bool average = c.random.chance(0.4);
  const std::vector<std::string> from = checkpoints(whole_run(c.place));
  Launch launch = average ? command(c, {"ckpt", "average", from.front(), from.back(), "--to", to})
                          : command(c, {"ckpt", "export", whole_run(c.place), "--to", to});
  for (std::size_t kills = 1 + c.random.below(4); kills > 0; --kills) {
    launch.fault = {.calls = "write,fsync,rename",
                    .path = "/made",
                    .times = 0,
                    .action = fmt::format("delay:{}", 1 + c.random.below(10))};
    Child child(launch);
    if (!child.ends_within(c.random.between(0, 0.4))) child.send(SIGKILL);
    child.wait();
    fs::remove_all(to);
  }
  launch.fault = {};
  const std::string doing = average ? "ckpt average after kills" : "ckpt export after kills";
  expect_end(run(launch), {0}, doing);
  for (const fs::directory_entry& entry : fs::directory_iterator(c.folder))
    if (entry.path().filename().string().starts_with("made.") ||
        entry.path().filename().string().starts_with("made/"))
      throw Failure(doing + ": something is left over", entry.path().string());
  expect_end(run(command(c, {"decode", "-m", to, "-p", "a", "-n", "2", "--temp", "0"})), {0},
             doing + ", then decode");
}

}  // namespace

std::vector<Kind> output_kinds() {
  return {
      {"odd-targets", "report, embed, eval and chat write to devices, FIFOs and links; these stay",
       0.5, odd_targets},
      {"run-targets", "the same commands on files of a run; all are refused", 0.5, run_targets},
      {"killed-exports", "kill -9 in export and average; the next one leaves nothing over", 0.5,
       killed_exports}};
}

}  // namespace lamina::torture
