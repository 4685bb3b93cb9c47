#include "device/connect.h"

#include <algorithm>

#include "backends/cuda/nccl/communicator.h"
#include "core/error.h"
#include "device/cuda.h"

namespace lamina::device {

std::vector<const Device*> open_all(std::string_view names) {
  const auto comma = names.find(',');
  if (comma == names.npos) return {&open(names)};
  const auto refuse = [&](std::string what) {
    throw UserError(ExitCode::usage, {"--device", std::move(what), {"eg: --device cuda:0,1"}});
  };
  const auto colon = names.find(':');
  if (colon == names.npos || names.substr(0, colon) != "cuda")
    refuse(fmt::format("got '{}'; several devices must be GPUs", names));
  std::vector<const Device*> out;
  for (std::string_view rest = names.substr(colon + 1);;) {
    const std::string_view number = rest.substr(0, rest.find(','));
    if (number.empty() || number.find_first_not_of("0123456789") != number.npos)
      refuse(fmt::format("got '{}'; expected the numbers of GPUs, with commas between", names));
    const Device& gpu = open(fmt::format("cuda:{}", number));
    if (std::ranges::find(out, &gpu) != out.end())
      refuse(fmt::format("{} names GPU {} twice; expected different GPUs", names, number));
    out.push_back(&gpu);
    if (number.size() == rest.size()) return out;
    rest.remove_prefix(number.size() + 1);
  }
}

CommunicatorGroup connect(const std::vector<const Device*>& devices) {
  std::vector<const Backend*> gpus;
  CommunicatorGroup out;
  for (const Device* device : devices) {
    gpus.push_back(&device->backend());
    out.names.emplace_back(device->name());
  }
  const auto& first = dynamic_cast<const CudaDevice&>(*devices.front());
  try {
    out.ranks = cuda::nccl::connect(first.nccl(), gpus, out.names, first.time_limit());
  } catch (const DeviceError& e) {
    if (e.code() == ExitCode::communication) throw;
    throw UserError(ExitCode::usage, {"--device",
                                      fmt::format("{} cannot be used together: {}",
                                                  fmt::join(out.names, " and "), e.text().what),
                                      e.text().notes});
  }
  out.begin_thread = [&first] { first.unpin_this_thread(); };
  return out;
}

}  // namespace lamina::device
