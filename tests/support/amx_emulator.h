// Runs the program's AMX instructions on machines without AMX, for tests: each one raises SIGILL,
// whose handler decodes and computes it.
//
//   const AmxEmulator amx;        // does nothing on a machine with AMX
//   AmxTiles::configure(...);
//
// Instructions that would fault on AMX (wrong configurations, tiles of shapes that do not match,
// tiles that are not configured) end the process with a line on stderr that begins with "AMX".
#pragma once

#include <csignal>
#include <cstdint>

namespace lamina::testing {

class AmxEmulator {
 public:
  AmxEmulator();
  ~AmxEmulator();
  AmxEmulator(const AmxEmulator&) = delete;
  AmxEmulator& operator=(const AmxEmulator&) = delete;

  // Returns the number of instructions that all threads have emulated since the constructor.
  std::int64_t instructions() const;

 private:
  struct sigaction before_ = {};
  std::int64_t instructions_before_;
};

}  // namespace lamina::testing
