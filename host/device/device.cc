#include "device/device.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/log.h"
#include "device/cpu.h"
#include "device/cuda.h"

namespace lamina::device {
namespace {

std::vector<const Device*>& devices() {
  static const CpuDevice cpu;
  static std::vector<const Device*> all = {&cpu};
  return all;
}

constexpr std::string_view kNumbered = "cuda:";

// True for the name of a GPU known only by its data sheet.
bool is_described(std::string_view name) {
  if (!name.starts_with(kNumbered)) return false;
  const std::vector<std::string> cards = described_gpus();
  return std::ranges::find(cards, name.substr(kNumbered.size())) != cards.end();
}

// Leading zeros would give a GPU several names.
bool is_device_name(std::string_view name) {
  if (name == "cpu" || name == "cuda") return true;
  if (!name.starts_with(kNumbered)) return false;
  const std::string_view number = name.substr(kNumbered.size());
  return !number.empty() && number.size() <= 3 &&
         number.find_first_not_of("0123456789") == std::string_view::npos &&
         (number == "0" || number.front() != '0');
}

std::string& reason_for_cpu() {
  static std::string reason;
  return reason;
}

// Returns an opened or added device, or null.
const Device* find(std::string_view name) {
  const auto found = std::ranges::find(devices(), name, &Device::name);
  return found == devices().end() ? nullptr : *found;
}

// GPUs stay open until the process ends.
const Device& keep(std::unique_ptr<Device> device) {
  const Device& gpu = *device.release();
  devices().push_back(&gpu);
  return gpu;
}

OpenGpu open_numbered = [](int ordinal) -> std::unique_ptr<Device> { return open_gpu(ordinal); };
const Device& open_and_keep(int ordinal) { return keep(open_numbered(ordinal)); }

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const Device* device : devices()) out.emplace_back(device->name());
  return out;
}

const Device& open(std::string_view name) {
  if (name == "auto") {
    if (!reason_for_cpu().empty()) return *devices().front();
    for (std::size_t i = 1; i < devices().size(); ++i)
      if (devices()[i]->computes()) return *devices()[i];
    try {
      return open_and_keep(0);
    } catch (const DeviceError& e) {
      use_cpu_for_auto(e.text().what);
      log::debug("--device auto takes the CPU: {}", e.what());
      return *devices().front();
    }
  }
  if (is_described(name)) {
    if (const Device* known = find(name)) return *known;
    return keep(describe_gpu(name.substr(kNumbered.size())));
  }
  if (!is_device_name(name))
    throw UserError(
        ExitCode::usage,
        {"--device",
         fmt::format("got '{}'; expected auto, cpu, cuda or cuda:N, where N counts from 0, without "
                     "leading zeros",
                     name),
         {fmt::format("explain, plan, and train with --dry-run or --fit also take GPUs known only "
                      "by their data sheets: cuda:{}",
                      fmt::join(described_gpus(), ", cuda:"))}});
  const std::string_view wanted = name == "cuda:0" ? "cuda" : name;  // the first one
  if (const Device* known = find(wanted)) return *known;
  const auto colon = wanted.find(':');
  try {
    return open_and_keep(colon == wanted.npos ? 0
                                              : std::stoi(std::string(wanted.substr(colon + 1))));
  } catch (const DeviceError& e) {
    std::vector<std::string> notes = e.text().notes;
    notes.emplace_back("--device auto takes the CPU where no GPU can be used");
    throw UserError(
        ExitCode::usage,
        {"--device", fmt::format("{} cannot be used: {}", name, e.text().what), std::move(notes)});
  }
}

std::string why_cpu() { return reason_for_cpu(); }
void use_cpu_for_auto(std::string reason) { reason_for_cpu() = std::move(reason); }

void open_gpus_by(OpenGpu open) { open_numbered = open; }

}  // namespace lamina::device
