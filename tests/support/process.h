// Runs a program and collects its output, for tests of the built binary and of scripts.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace lamina::testing {

struct Finished {
  int code = -1;  // the exit code, or 128 + the signal's number
  std::string out;
  std::string err;
  std::size_t peak_bytes = 0;  // its largest memory, including pages of its files
};

struct Surroundings {
  std::vector<std::string> environment = {};  // "NAME=value", added to the test's own
  std::string folder = {};                    // the working folder; empty: the current one
};

// Runs words[0] (a path, or a name looked up in PATH) with stdin empty, and waits for its end.
inline Finished run_process(const std::vector<std::string>& words,
                            const Surroundings& surroundings = {}) {
  int out[2], err[2];
  if (pipe(out) != 0 || pipe(err) != 0) return {};
  pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "r", stdin)) _exit(126);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    for (int descriptor : {out[0], out[1], err[0], err[1]}) close(descriptor);
    for (const std::string& variable : surroundings.environment)
      putenv(const_cast<char*>(variable.c_str()));
    if (!surroundings.folder.empty() && chdir(surroundings.folder.c_str()) != 0) _exit(126);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  Finished result;
  pollfd watched[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  std::string* texts[2] = {&result.out, &result.err};
  for (int open = 2; open > 0 && poll(watched, 2, -1) >= 0;)
    for (int i = 0; i < 2; ++i) {
      if (watched[i].fd < 0 || watched[i].revents == 0) continue;
      char buffer[4096];
      ssize_t count = read(watched[i].fd, buffer, sizeof buffer);
      if (count > 0) {
        texts[i]->append(buffer, static_cast<std::size_t>(count));
      } else {
        close(watched[i].fd);
        watched[i].fd = -1;
        --open;
      }
    }
  int status = 0;
  rusage use = {};
  wait4(child, &status, 0, &use);
  result.peak_bytes = static_cast<std::size_t>(use.ru_maxrss) * 1024;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

// Runs a line of shell, eg: "lamina --help | head -1".
inline Finished run_shell(const std::string& line, const Surroundings& surroundings = {}) {
  return run_process({"bash", "-c", line}, surroundings);
}

}  // namespace lamina::testing
