// The path of the running program.
#pragma once

#include <filesystem>

namespace lamina {

// Returns the program's file, absolute and without links; the path given at its start if /proc is
// not mounted. Empty if the system does not provide it.
std::filesystem::path program_path();

}  // namespace lamina
