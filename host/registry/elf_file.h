// Reads an ELF shared library without running any of it: is it whole, is it for this machine, what
// does it say about itself. dlopen() of a cut file ends the process, so this comes first.
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
  std::vector<std::string> exports;   // dynamic symbols that others may use
  std::vector<std::string> imports;   // dynamic symbols that others must have
  std::vector<std::string> needed;    // libraries it asks the loader for
  std::vector<std::string> versions;  // of their symbols, that they must have: "GLIBC_2.34"
  std::string run_path;               // where it asks the loader to search; usually ""
  bool executable_stack = false;
  bool text_relocations = false;
  int num_unique_symbols = 0;  // STB_GNU_UNIQUE: such a library is never unmapped
  int num_constructors = 0;    // functions that run when it is loaded
  std::string manifest;        // the text of its manifest section
};

// Reads and checks `path`. Throws PluginError (one clear line each) when the file is missing, not a
// regular file, not ELF, cut or otherwise damaged, for another machine, no shared library, or lacks
// the manifest or the entry symbol.
ElfFile read_elf(const std::filesystem::path& path);

// What of F-2 and F-3 of docs/plugin_requirements.md its symbols break, one text each.
std::vector<std::string> symbol_problems(const ElfFile& file);
// What of F-3 and F-4 it asks of the loader that it may not.
std::vector<std::string> loading_problems(const ElfFile& file);
// Both. Throws PluginError where there are any.
void check_file_rules(const ElfFile& file);

// The machine this program was compiled for, as in ElfFile::machine.
std::string_view host_machine();

}  // namespace lamina::registry
