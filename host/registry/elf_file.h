// Reads an ELF shared library without running any of its code: checks that it is complete and for
// this machine, and reads its manifest. dlopen() of a truncated file kills the process, so this
// comes first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::registry {

struct ElfFile {
  std::string path;
  std::uint64_t num_bytes = 0;
  std::string machine;                // "x86-64"
  std::vector<std::string> exports;   // defined dynamic symbols
  std::vector<std::string> imports;   // undefined dynamic symbols
  std::vector<std::string> needed;    // libraries that it depends on
  std::vector<std::string> versions;  // symbol versions that it depends on: "GLIBC_2.34"
  std::string run_path;               // search path for the loader; usually ""
  bool executable_stack = false;      // requested, or not declined
  bool text_relocations = false;
  int num_unique_symbols = 0;  // STB_GNU_UNIQUE: such a library is never unmapped
  int num_constructors = 0;    // functions that run when it is loaded
  std::string manifest;        // the text of its manifest section
};

// Reads and checks `path`. Throws PluginError (one clear line each) if the file is missing, not a
// regular file, not ELF, truncated or otherwise damaged, for another machine, not a shared library,
// or without the manifest or the entry symbol.
ElfFile read_elf(const std::filesystem::path& path);

// Returns the violations of F-2 and F-3 of docs/plugin_requirements.md by its symbols, one text
// each.
std::vector<std::string> symbol_problems(const ElfFile& file);
// Returns the violations of F-3 and F-4 in its requests to the loader.
std::vector<std::string> loading_problems(const ElfFile& file);
// Checks both. Throws PluginError if there are violations.
void check_file_rules(const ElfFile& file);

// Returns the machine that this program was compiled for, as in ElfFile::machine.
std::string_view host_machine();

}  // namespace lamina::registry
