// The memory of a GPU, planned before a command reads weights or data.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "decode/session.h"
#include "device/device.h"
#include "inspect/plan/train_plan.h"

namespace lamina::cli {

// Parts of the device's memory that a command needs, by name.
using MemoryNeed = std::vector<std::pair<std::string, std::size_t>>;

MemoryNeed decode_need(const decoder::Model& model, const decode::SessionOptions& options,
                       const Backend& backend);
MemoryNeed train_need(const inspect::TrainPlan& plan, DType compute);
// The parts in pinned host memory; none if nothing is offloaded.
MemoryNeed train_host_need(const inspect::TrainPlan& plan);

// "weights 1.2 GiB, state 512 MiB: 1.7 GiB of 15.1 GiB free on cuda (16 GiB)"
std::string need_text(const MemoryNeed& need, const device::Device& device);

bool fits(const MemoryNeed& need, const device::Device& device);

// True for a device with separate memory; the CPU's is shared with the files and other programs,
// and is not planned.
bool has_own_memory(const device::Device& device);

enum class WeightsAre { to_be_loaded, loaded };

// Throws DeviceTooSmall (exit 7) with the plan if the device has less free memory, for the command
// `where`; the first note says what to change. If the weights are loaded, it is a UserError. Does
// nothing if the device has no separate memory.
void check_memory(const MemoryNeed& need, const device::Device& device, const std::string& where,
                  const std::string& advice, WeightsAre weights = WeightsAre::to_be_loaded);

// Advice for a command that reads a model: `less` names the choices of this command alone, eg
// "a shorter text".
std::string advice_on_memory(const std::string& less);

// Bytes of host memory that this process may still allocate.
std::uint64_t available_host_memory();

// Likewise for pinned host memory of `num_devices` devices, each of which needs the parts.
void check_host_memory(const MemoryNeed& need, const std::string& where, std::size_t num_devices);

// The weights of a model in the types that graphs read, and the temporaries of the largest of the
// graphs, which are compiled.
MemoryNeed graphs_need(const decoder::Model& model, DType dtype,
                       std::vector<decoder::ModelGraph> graphs, const Backend& backend);

// Checks the memory of a session: of the weights, unless they are loaded, the state and the
// temporaries.
void check_decode_memory(const decoder::Model& model, const decode::SessionOptions& options,
                         const device::Device& device, const std::string& where,
                         WeightsAre weights);

}  // namespace lamina::cli
