// Errors of the driver, in words.
#include <algorithm>

#include "backends/cuda/driver/api.h"
#include "core/error.h"

namespace lamina::cuda {
namespace {

// Explanations for people. Xid: the number of the error in the system's log (`dmesg`).
struct Advice {
  DriverResult error;
  const char* text;
};

constexpr const char* kKernelMistake =
    "a mistake in a kernel of lamina or of a plugin (Xid 13 or 31): please report it; "
    "LAMINA_PLUGIN_KERNELS=0 leaves out the plugins'";
constexpr const char* kBrokenCard =
    "the card, its power or its cooling failed: see `dmesg` for an Xid and `nvidia-smi -q`; use "
    "another GPU, or reset this one";

constexpr Advice kAdvice[] = {
    {DriverResult::device_unavailable,
     "another process uses the GPU alone: `nvidia-smi -q -d COMPUTE` shows the compute mode"},
    {DriverResult::no_binary_for_gpu,
     "this build has kernels for compute capability 9.0, and PTX for 8.0 and higher"},
    {DriverResult::ecc_uncorrectable,
     "the memory of the GPU is damaged (Xid 48, 63, 64, 94 or 95): `nvidia-smi -q -d ECC` counts "
     "the errors; reset the GPU, or use another"},
    {DriverResult::invalid_ptx, "the driver could not compile the kernels: install a newer one"},
    {DriverResult::nvlink_uncorrectable,
     "a link between GPUs failed (Xid 74): `nvidia-smi nvlink -e` counts the errors"},
    {DriverResult::unsupported_ptx_version,
     "the driver is older than the toolkit of this build: install a newer driver"},
    {DriverResult::contained, kBrokenCard},
    {DriverResult::illegal_address, kKernelMistake},
    {DriverResult::launch_timeout,
     "the driver ends long kernels of a GPU that also shows a screen (Xid 8): use another GPU"},
    {DriverResult::device_assert, kKernelMistake},
    {DriverResult::hardware_stack_error, kKernelMistake},
    {DriverResult::illegal_instruction, kKernelMistake},
    {DriverResult::misaligned_address, kKernelMistake},
    {DriverResult::invalid_address_space, kKernelMistake},
    {DriverResult::invalid_pc, kKernelMistake},
    {DriverResult::launch_failed, kBrokenCard},
    {DriverResult::system_driver_mismatch,
     "libcuda.so.1 and the driver of the kernel are of different versions, as after an upgrade: "
     "reboot"},
    {DriverResult::unknown, kBrokenCard},
};

// Errors of work: the context cannot be used any more.
bool ends_context(DriverResult error) {
  const int code = static_cast<int>(error);
  return (code >= 700 && code < 800 && error != DriverResult::launch_out_of_resources) ||
         error == DriverResult::ecc_uncorrectable || error == DriverResult::nvlink_uncorrectable ||
         error == DriverResult::contained || error == DriverResult::unknown;
}

}  // namespace

std::string words_of(const DriverApi& api, DriverResult error) {
  const char *text = nullptr, *name = nullptr;
  if (api.get_error_string(error, &text) != DriverResult::success || !text) text = "unknown error";
  if (api.get_error_name(error, &name) != DriverResult::success || !name) name = "unknown";
  return fmt::format("{} ({}, error {})", text, name, static_cast<int>(error));
}

int version_of(const DriverApi& api) {
  int version = 0;
  check(api, api.get_version(&version), "reading the driver's version");
  return version;
}

void throw_driver_error(const DriverApi& api, DriverResult error, const char* action) {
  std::vector<std::string> notes;
  const auto* const advice = std::ranges::find(kAdvice, error, &Advice::error);
  if (advice != std::end(kAdvice)) notes.emplace_back(advice->text);
  if (ends_context(error)) notes.emplace_back("a training run continues from its last checkpoint");
  throw DeviceError(ExitCode::memory, {"cuda", fmt::format("{}: {}", action, words_of(api, error)),
                                       std::move(notes)});
}

}  // namespace lamina::cuda
