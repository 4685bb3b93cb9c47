// A ModelPlan for people and for programs.
#pragma once

#include <string>

#include "inspect/plan/model_plan.h"

namespace lamina::cli {

// Tables, and a picture of the stack with bars for each part's share of the parameters.
std::string plan_text(const std::string& model, const inspect::ModelPlan& plan);

// One JSON object; numbers are exact, sizes in bytes.
std::string plan_json(const std::string& model, const inspect::ModelPlan& plan);

}  // namespace lamina::cli
