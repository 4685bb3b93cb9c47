// The predicted time of a program on a described GPU, as text.
#pragma once

#include <string>

#include "cli/explain/subject.h"
#include "device/device.h"
#include "runtime/program.h"

namespace lamina::cli {

std::string prediction_text(const Program& program, const device::Device& device,
                            const Subject& subject);

}  // namespace lamina::cli
