// Opens cuDNN, which the program does not link and does not need.
#pragma once

#include <span>
#include <string>

#include "backends/cuda/dnn/api.h"

namespace lamina::cuda::dnn {

// Versions before this one have known errors in attention: 9.10 in all of it, 9.14 with windows,
// 9.15 and older with numbers of keys that are not multiples of 128 (NVIDIA's release notes).
inline constexpr std::size_t kOldestVersion = 91600;

// Returns eg: "9.19.0".
std::string version_text(std::size_t version);

struct Opened {
  const DnnApi* api = nullptr;  // valid until the process ends
  std::string why_not;          // if there is none
};
using OpenDnn = const Opened& (*)();

// Opens the first of the files that exists; refuses a library that is too old, that lacks a
// function, or that was built for a newer major version of CUDA than the driver's. [any thread]
Opened open_api(std::span<const char* const> files, int driver_version);

// Likewise for libcudnn.so.9, once per process.
const Opened& system_api();

}  // namespace lamina::cuda::dnn
