// Where the running program lies.
#pragma once

#include <filesystem>

namespace lamina {

// The program's file, absolute and without links; where /proc is not mounted, as it was started.
// Empty where the system does not say.
std::filesystem::path program_path();

}  // namespace lamina
