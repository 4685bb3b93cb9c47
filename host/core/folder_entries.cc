#include "core/folder_entries.h"

#include <new>
#include <system_error>

namespace lamina {
namespace fs = std::filesystem;

std::vector<fs::directory_entry> folder_entries(const fs::path& folder) {
  std::vector<fs::directory_entry> out;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    out.push_back(entry);
  if (error == std::errc::not_enough_memory) throw std::bad_alloc();
  return out;
}

}  // namespace lamina
