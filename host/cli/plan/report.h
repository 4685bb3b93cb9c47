// A ModelPlan for people and for programs.
#pragma once

#include <string>

#include "cli/plan/device_memory.h"
#include "inspect/plan/model_plan.h"

namespace lamina::cli {

// Tables, and a picture of the stack with bars for each part's share of the parameters. Offloaded
// bytes are compared with the speed of `device`.
std::string plan_text(const std::string& model, const inspect::ModelPlan& plan,
                      const device::Device& device);

// One JSON object; numbers are exact, sizes in bytes. `need`: the memory of `device` for decoding,
// if that has separate memory.
std::string plan_json(const std::string& model, const inspect::ModelPlan& plan,
                      const MemoryNeed& need, const device::Device& device);

}  // namespace lamina::cli
