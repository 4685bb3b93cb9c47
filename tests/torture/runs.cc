// Runs that are killed, signalled, started twice, and moved.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>

#include "torture/judge.h"
#include "torture/tiny_run.h"

namespace lamina::torture {
namespace {

// Slow calls of a save lengthen the time in which it is incomplete.
Fault slow_saves(Random& random) {
  static const std::vector<std::string> calls = {
      "write", "fsync", "rename", "unlink", "write,fsync,rename", "open", "mkdir"};
  return {.calls = random.pick(calls),
          .path = "/out/",
          .first = 1 + random.below(60),
          .times = 1 + random.below(40),
          .action = fmt::format("delay:{}", 1 + random.below(20))};
}

void kill_at_random(Case& c) {
  std::string after = "kill -9";
  for (std::size_t kills = 1 + c.random.below(4); kills > 0; --kills) {
    Launch launch = train(c);
    if (c.random.chance(0.6)) launch.fault = slow_saves(c.random);
    Child child(launch);
    const double moment = c.random.between(0, 1.3 * c.place.run_seconds);
    after += fmt::format(" after {:.3f} s", moment);
    if (!child.ends_within(moment)) child.send(SIGKILL);
    const Ended ended = child.wait();
    if (ended.signal != SIGKILL) expect_end(ended, {0}, after);
  }
  expect_unharmed(c, "kill -9 at random moments");
}

bool is_writing(const Case& c) {
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(out_of(c) + "/checkpoints", ec))
    if (entry.path().filename().string().find(".partial-") != std::string::npos) return true;
  return false;
}

// Slow writes, so that several steps are trained during a save.
void kill_the_writer(Case& c) {
  c.tunes = c.random.chance(0.5);
  std::string after = "kill -9";
  for (std::size_t kills = 1 + c.random.below(3); kills > 0; --kills) {
    Launch launch = train(c);
    launch.words.insert(launch.words.end(), {"--set", "checkpoint.every_steps=1"});
    launch.fault = {.calls = "write,fsync",
                    .path = "/checkpoints/",
                    .times = 0,
                    .action = fmt::format("delay:{}", 1 + c.random.below(5))};
    Child child(launch);
    for (std::size_t saves = c.random.below(4);; --saves) {
      while (!is_writing(c) && !child.ends_within(0.0002)) {
      }
      if (saves == 0 || child.ends_within(0)) break;
      while (is_writing(c) && !child.ends_within(0.0002)) {
      }
    }
    const double moment = c.random.between(0, 0.08);
    after += fmt::format(", {:.3f} s into a checkpoint", moment);
    if (!child.ends_within(moment)) child.send(SIGKILL);
    const Ended ended = child.wait();
    if (ended.signal != SIGKILL) expect_end(ended, {0}, after);
  }
  expect_unharmed(c, "kill -9 while a checkpoint is written and training goes on");
}

// main() ignores SIGPIPE first; after that the program handles signals.
bool wait_for_main(Child& child) {
  while (!child.handles(SIGPIPE))
    if (child.ends_within(0.0005)) return false;
  // Waits for the handlers, which are installed before data is read.
  for (int i = 0; i < 20 && !child.handles(SIGTERM); ++i) child.ends_within(0.001);
  return true;
}

bool documented(const Case& c, int code) {
  return read_bytes(c.place.source + "/docs/exit_codes.md").find(fmt::format("\n| {} |", code)) !=
         std::string::npos;
}

// Counts the lines of every trained step. A run that starts after another one's sudden end moves
// that one's lines to metrics.superseded.jsonl.
std::ptrdiff_t lines_of_metrics(const Case& c) {
  const std::string lines = read_bytes(out_of(c) + "/metrics.jsonl") +
                            read_bytes(out_of(c) + "/metrics.superseded.jsonl");
  return std::ranges::count(lines, '\n');
}

void signals_at_random(Case& c) {
  static const std::vector<int> all = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
  for (std::size_t round = 1 + c.random.below(2); round > 0; --round) {
    Launch launch = train(c);
    if (c.random.chance(0.3)) launch.fault = slow_saves(c.random);
    const bool blocked = c.random.chance(0.25);
    if (blocked) launch.blocked_signals = all;
    const int signal = c.random.pick(all);
    const bool storm = c.random.chance(0.3);
    const double moment =
        c.random.chance(0.4) ? c.random.between(0, 0.03) : c.random.between(0, c.place.run_seconds);
    const std::string doing =
        fmt::format("{} {}{}", storm ? "a storm of" : "one", ::sigabbrev_np(signal),
                    blocked ? " from a blocking parent" : "");
    const std::ptrdiff_t lines_before = lines_of_metrics(c);
    Child child(launch);
    int num_stops = 0;
    if (blocked || (wait_for_main(child) && !child.ends_within(moment))) {
      const std::size_t count = storm ? 2 + c.random.below(200) : 1;
      for (std::size_t i = 0; i < count && !child.ends_within(0); ++i) {
        const int one = storm && c.random.chance(0.3) ? c.random.pick(all) : signal;
        num_stops += one != SIGUSR1;
        child.send(one);
        if (c.random.chance(0.2)) child.ends_within(c.random.between(0, 0.003));
      }
    }
    const Ended ended = child.wait();
    if (num_stops == 0)
      expect_end(ended, {0}, doing);
    else if (documented(c, 129))  // SIGHUP
      expect_end(ended, {0, 75, 129, 130, 143}, doing);
    else
      expect_end(ended, {0, 75, 130, 143}, doing);
    // A second stop signal ends the program immediately; a single one saves, unless there is
    // nothing to save.
    if (num_stops == 1 && ended.code > 75 && lines_of_metrics(c) > lines_before)
      throw Failure(doing + ": steps were trained and not saved", ended.text());
  }
  expect_unharmed(c, "signals at random moments");
}

void two_on_one_run(Case& c) {
  // Slow steps, so that the second program starts during the first one's run.
  Launch launch = train(c);
  launch.fault = {.calls = "fsync", .path = "/out/", .times = 0, .action = "delay:2"};
  const double moment = c.random.between(0, 1.2 * c.place.run_seconds);
  const std::string doing = "two trainers on one run directory";
  Child first(launch);
  first.ends_within(moment);
  Child second(launch);
  const Ended a = first.wait(), b = second.wait();
  expect_end(a, {0, 2, 4, 6}, doing + ", the first");
  expect_end(b, {0, 2, 4, 6}, doing + ", the second");
  if (a.code != 0 && b.code != 0)
    throw Failure(doing + ": both failed", last_words(a) + last_words(b));
  expect_metrics(c, doing);
  expect_unharmed(c, doing);
}

// Returns whether a run held the lock of the directory: it writes its name after it took it.
bool was_held(const std::string& directory) {
  std::error_code ec;
  const auto bytes = std::filesystem::file_size(directory + "/lock", ec);
  return !ec && bytes > 0;
}

// A run resumes in its folder after the folder was moved; a different run starts in a new folder of
// the old name.
void moved_while_it_trains(Case& c) {
  Launch launch = train(c);
  launch.fault = {.calls = "fsync", .path = "/out/", .times = 0, .action = "delay:2"};
  const std::string doing = "the run directory is moved while a run trains in it";
  const std::string old = c.folder + "/old";
  Child first(launch);
  first.ends_within(c.random.between(0, 1.2 * c.place.run_seconds));
  std::error_code none;  // before the run has created it
  std::filesystem::rename(out_of(c), old, none);
  if (none) {
    expect_end(first.wait(), {0}, doing);
    return expect_unharmed(c, doing);
  }
  if (c.random.chance(0.3)) {
    expect_end(first.wait(), {0, 4}, doing);
    if (was_held(old) && std::filesystem::exists(out_of(c)))
      throw Failure(doing + ": it made the directory anew", out_of(c));
    return;
  }
  Child second(train(c));
  const Ended a = first.wait(), b = second.wait();
  expect_end(a, {0, 4}, doing + ", the first run");
  if (!was_held(old)) {  // both runs want the directory of this name
    expect_end(b, {0, 4}, doing + ", the second run");
    return expect_unharmed(c, doing);
  }
  expect_end(b, {0}, doing + ", the second run");
  expect_result(c, doing);
  expect_metrics(c, doing);
  if (checkpoints(out_of(c)).size() != 3)
    throw Failure(doing + ": checkpoints of the second run are gone or were added", old);
}

}  // namespace

std::vector<Kind> run_kinds() {
  return {
      {"kill", "kill -9 at random moments, also in slow saves; trained on, all is bitwise equal", 2,
       kill_at_random},
      {"kill-writer",
       "kill -9 while checkpoints are written in the background, also in fine-tuning; likewise", 2,
       kill_the_writer},
      {"signals", "TERM, INT, HUP, USR1, alone and in storms; a documented exit code, resumable",
       1.5, signals_at_random},
      {"two-runs", "two trainers on one run directory; one is refused, the other unharmed", 1,
       two_on_one_run},
      {"moved-run", "a run directory that is moved, and a new run of its name; neither is harmed",
       1, moved_while_it_trains}};
}

}  // namespace lamina::torture
