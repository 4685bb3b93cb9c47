// The fuzz targets without libFuzzer: runs the kept inputs, then a number of mutations of them that
// depends on the seed alone. Names the input before it ends the process.
//   json_fuzz CORPUS_DIR [MUTATIONS [SEED]]
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/fuzz.h"
#include "torture/mutation.h"

// Defined by the sanitizers if the build has them.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*)());

namespace {

char current[512];

extern "C" void say_current() {
  [[maybe_unused]] const auto written =
      write(STDERR_FILENO, current, std::string_view(current).size());
}
extern "C" void on_signal(int signal) {
  say_current();
  _exit(128 + signal);
}

void run(const std::string& name, const std::string& bytes) {
  fmt::format_to_n(current, sizeof current - 1, "fuzz: it happened with {}\n{}", name, '\0');
  // A copy of exactly that size, so that a sanitizer reports every read past the end.
  const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print(stderr, "usage: {} CORPUS_DIR [MUTATIONS [SEED]]\n", argv[0]), 2;
  if (__sanitizer_set_death_callback)
    __sanitizer_set_death_callback(say_current);
  else
    for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP})
      ::signal(signal, on_signal);
  std::vector<std::string> paths, inputs;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    run(path, inputs.back());
  }
  if (inputs.empty()) return fmt::print(stderr, "error: {}: no inputs\n", argv[1]), 2;
  const unsigned long mutations = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 0;
  const unsigned long seed = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 1;
  for (unsigned long i = 0; i < mutations; ++i) {
    lamina::torture::Random random("fuzz", seed + i);
    std::string bytes = random.pick(inputs);
    bytes = random.chance(0.5)   ? mutate_json(random, bytes)
            : random.chance(0.5) ? mutate_safetensors(random, bytes)
                                 : mutate_toml(random, bytes);
    run(fmt::format("mutation {} (replay: {} {} 1 {})", i, argv[0], argv[1], seed + i), bytes);
  }
  fmt::print("{} kept inputs, {} mutations\n", inputs.size(), mutations);
}
