// Limits of waits for a GPU.
#pragma once

#include <chrono>
#include <string>

namespace lamina::cuda {

// Returns LAMINA_GPU_TIMEOUT, or 600 s if it is not set; 0: no limit. Throws UserError (exit 2) for
// another text.
std::chrono::seconds gpu_timeout();

// Returns the duration after which a wait is reported, while it continues: a tenth of its limit,
// and a minute without one.
template <typename Duration>
Duration time_to_report(Duration limit) {
  return limit > Duration::zero() ? limit / 10 : std::chrono::minutes(1);
}

// Returns eg: "0.5 s".
std::string seconds_text(std::chrono::duration<double> time);

// Returns eg: "the program gives up after 600 s; LAMINA_GPU_TIMEOUT sets the limit".
std::string text_of_limit(std::chrono::duration<double> limit);

}  // namespace lamina::cuda
