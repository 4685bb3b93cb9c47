#include "cli/plan/device_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "cli/plan/memory_rows.h"
#include "cli/shell/command.h"
#include "cli/shell/units.h"
#include "core/error.h"
#include "inspect/plan/decode_plan.h"
#include "program/bound_program.h"

namespace lamina::cli {
namespace {

std::string size_text(std::size_t n) { return bytes_text(static_cast<double>(n)); }

std::size_t total(const MemoryNeed& need) {
  return std::accumulate(need.begin(), need.end(), std::size_t{0},
                         [](std::size_t sum, const auto& part) { return sum + part.second; });
}

// "weights 1.2 GiB, state 512 MiB"
std::string parts_text(const MemoryNeed& need) {
  std::vector<std::string> parts;
  for (const auto& [name, n] : need) parts.push_back(fmt::format("{} {}", name, size_text(n)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

MemoryNeed decode_need(const decoder::Model& model, const decode::SessionOptions& options,
                       const Backend& backend) {
  const inspect::DecodePlan plan = inspect::plan_decoding(model, options, backend);
  return {{"weights", plan.weights},
          {fmt::format("state of {} x {} tokens", options.batch, options.capacity), plan.states},
          {"temporaries", plan.temporaries},
          {"inputs and logits", plan.transfers}};
}

// Copies for checkpoints are in the memory of the host.
MemoryNeed train_need(const inspect::TrainPlan& plan, DType compute) {
  inspect::TrainMemory memory = plan.memory;
  memory.checkpoint = 0;
  MemoryNeed out = memory_rows(memory, compute);
  out.emplace_back("temporaries of a step", plan.step_bytes);
  if (plan.validation_bytes > 0) out.emplace_back("of a validation", plan.validation_bytes);
  if (plan.transfer_bytes > 0) out.emplace_back("inputs and losses", plan.transfer_bytes);
  return out;
}

MemoryNeed train_host_need(const inspect::TrainPlan& plan) {
  MemoryNeed out{{"state of the optimizer", plan.memory.bytes.offloaded},
                 {"values kept for the backward pass", plan.step_host_bytes}};
  std::erase_if(out, [](const auto& part) { return part.second == 0; });
  return out;
}

std::uint64_t available_host_memory() { return device::open("cpu").available_memory(); }

void check_host_memory(const MemoryNeed& need, const std::string& where, std::size_t num_devices) {
  const std::size_t needed = total(need) * num_devices;
  const std::uint64_t available = available_host_memory();
  if (needed <= available) return;
  throw UserError(
      ExitCode::memory,
      {where,
       fmt::format("needs {} of pinned host memory, and {} are available", size_text(needed),
                   size_text(available)),
       {fmt::format("{}{}", parts_text(need),
                    num_devices > 1 ? fmt::format(", for each of {} devices", num_devices) : ""),
        "offload less: optimizer.offload, train.remat, train.remat_tags"}});
}

std::string need_text(const MemoryNeed& need, const device::Device& device) {
  return fmt::format("{}: {} of {} free on {}", parts_text(need), size_text(total(need)),
                     size_text(device.available_memory()), device.name());
}

bool fits(const MemoryNeed& need, const device::Device& device) {
  return total(need) <= device.available_memory();
}

bool has_own_memory(const device::Device& device) {
  return !device.backend().reaches(MemoryKind::host);
}

void check_memory(const MemoryNeed& need, const device::Device& device, const std::string& where,
                  const std::string& advice, WeightsAre weights) {
  if (!has_own_memory(device) || fits(need, device)) return;
  ErrorText text{
      where,
      fmt::format("needs {}, and {} of the memory of {} are free", size_text(total(need)),
                  size_text(device.available_memory()), device.name()),
      {need_text(need, device), advice, "other processes on this GPU use memory too: nvidia-smi"}};
  if (weights == WeightsAre::loaded) throw UserError(ExitCode::memory, std::move(text));
  throw DeviceTooSmall(ExitCode::memory, std::move(text));
}

std::string advice_on_memory(const std::string& less) {
  return fmt::format("use {}, a model in fewer bits (--quantize int8), or --device cpu", less);
}

MemoryNeed graphs_need(const decoder::Model& model, DType dtype,
                       std::vector<decoder::ModelGraph> graphs, const Backend& backend) {
  std::size_t weights = 0, temporaries = 0;
  for (const decoder::Parameter& p : model.parameters().all())
    weights += aligned(static_cast<std::size_t>(p.used_type(dtype).bytes()));
  for (decoder::ModelGraph& graph : graphs)
    temporaries =
        std::max(temporaries, program::BoundProgram(std::move(graph), backend).arena_bytes());
  return {{"weights", weights}, {"temporaries", temporaries}};
}

void check_decode_memory(const decoder::Model& model, const decode::SessionOptions& options,
                         const device::Device& device, const std::string& where,
                         WeightsAre weights) {
  if (!has_own_memory(device)) return;
  MemoryNeed need = decode_need(model, options, device.backend());
  if (weights == WeightsAre::loaded) need.erase(need.begin());
  check_memory(need, device, where, advice_on_memory("a shorter context (--ctx-size), fewer beams"),
               weights);
}

}  // namespace lamina::cli
