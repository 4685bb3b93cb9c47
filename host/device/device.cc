#include "device/device.h"

#include <algorithm>

#include "core/error.h"
#include "device/cpu.h"

namespace lamina::device {
namespace {

std::vector<const Device*>& devices() {
  static const CpuDevice cpu;
  static std::vector<const Device*> all = {&cpu};
  return all;
}

bool is_device_name(std::string_view name) {
  if (name == "cpu" || name == "cuda") return true;
  constexpr std::string_view kNumbered = "cuda:";
  if (!name.starts_with(kNumbered)) return false;
  const std::string_view number = name.substr(kNumbered.size());
  return !number.empty() && number.size() <= 3 &&
         number.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const Device* device : devices()) out.emplace_back(device->name());
  return out;
}

const Device& open(std::string_view name) {
  if (name == "auto") return *devices().back();
  if (!is_device_name(name))
    throw UserError(ExitCode::usage, {"--device",
                                      fmt::format("got '{}'; expected auto, cpu, cuda or cuda:N, "
                                                  "where N counts from 0",
                                                  name),
                                      {}});
  const std::string_view wanted = name == "cuda:0" ? "cuda" : name;  // the first one
  const auto found = std::ranges::find(devices(), wanted, &Device::name);
  if (found == devices().end())
    throw DeviceError(ExitCode::memory,
                      {"",
                       fmt::format("device '{}' is not on this machine, or this program was built "
                                   "without it; devices: {}",
                                   name, fmt::join(names(), ", ")),
                       {"use --device auto, or one of these"}});
  return **found;
}

void add(const Device& device) {
  LAMINA_ASSERT(std::ranges::find(devices(), device.name(), &Device::name) == devices().end());
  devices().push_back(&device);
}

}  // namespace lamina::device
