// A library that the program does not link: opened by the name of its file, used by the names of
// its functions.
#pragma once

#include <span>
#include <string>

namespace lamina::cuda {

class SharedLibrary {
 public:
  // Opens the first of the files that can be opened. It stays open until the process ends.
  explicit SharedLibrary(std::span<const char* const> files);

  explicit operator bool() const { return library_ != nullptr; }
  // The file that is open.
  const std::string& file() const { return file_; }
  // The loader's reason against the last file, if none is open.
  const std::string& why_not() const { return why_not_; }

  // Sets `function`. Returns false, and sets it to null, if the library has no such function.
  template <typename Function>
  bool find(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(address_of(symbol));
    return function != nullptr;
  }

 private:
  void* address_of(const char* symbol) const;

  void* library_ = nullptr;
  std::string file_, why_not_ = "no file";
};

}  // namespace lamina::cuda
