#include "registry/elf_file.h"

#include <elf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "core/system_error.h"
#include "lamina/abi.h"

namespace lamina::registry {
namespace {

constexpr std::string_view kManifestSection = LAMINA_MANIFEST_SECTION;
constexpr std::string_view kEntrySymbol = LAMINA_PLUGIN_SYMBOL;

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;
constexpr std::size_t kMaxManifestBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxVersions = 4096;

#if defined(__x86_64__)
constexpr std::uint16_t kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kHostMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr std::uint16_t kHostMachine = EM_RISCV;
#elif defined(__powerpc64__)
constexpr std::uint16_t kHostMachine = EM_PPC64;
#else
#error "add the ELF machine number of this architecture"
#endif

std::string machine_name(std::uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "x86 (32 bits)";
    case EM_ARM:
      return "arm (32 bits)";
    case EM_PPC64:
      return "ppc64";
    case EM_RISCV:
      return "riscv";
    case EM_S390:
      return "s390";
    case EM_LOONGARCH:
      return "loongarch";
    default:
      return fmt::format("machine number {}", machine);
  }
}

// Prints 181240 as "181,240".
std::string grouped(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

class Reader {
 public:
  Reader(std::string path, std::string bytes) : path_(std::move(path)), bytes_(std::move(bytes)) {}

  ElfFile read() {
    check_identity();
    read_tables();
    ElfFile out;
    out.path = path_;
    out.num_bytes = bytes_.size();
    out.machine = machine_name(header_.e_machine);
    read_dynamic_symbols(out);
    read_dynamic_section(out);
    read_versions(out);
    read_manifest(out);
    // A library without the segment gets the loader's default, an executable stack on x86-64. The
    // last segment decides.
    out.executable_stack = true;
    for (const Elf64_Phdr& segment : segments_)
      if (segment.p_type == PT_GNU_STACK) out.executable_stack = (segment.p_flags & PF_X) != 0;
    return out;
  }

 private:
  static constexpr const char* kCopyAgain = "copy it or build it again";

  [[noreturn]] void fail(std::string what, std::vector<std::string> notes = {}) const {
    throw PluginError({path_, std::move(what), std::move(notes)});
  }
  [[noreturn]] void damaged(std::string what) const {
    fail(std::move(what) + "; the file is damaged", {kCopyAgain});
  }

  // Returns whether [offset, offset + count) is inside the file, without overflow.
  bool inside(std::uint64_t offset, std::uint64_t count) const {
    return offset <= bytes_.size() && count <= bytes_.size() - offset;
  }
  void require_inside(std::string_view thing, std::uint64_t offset, std::uint64_t count) const {
    if (inside(offset, count)) return;
    const std::uint64_t end = offset + count;
    if (end < offset)
      damaged(fmt::format("its {} has the impossible end {} + {}", thing, offset, count));
    fail(fmt::format("file has {} bytes, but its {} ends at {}; it is truncated",
                     grouped(bytes_.size()), thing, grouped(end)),
         {kCopyAgain});
  }

  // Reads one fixed-size record. REQUIRES: inside().
  template <typename T>
  T record(std::uint64_t offset) const {
    T out;
    std::memcpy(&out, bytes_.data() + offset, sizeof(T));
    return out;
  }

  void check_identity() {
    static constexpr std::string_view kPlugin = "expected an ELF shared library";
    if (bytes_.empty()) fail(fmt::format("the file is empty; {}", kPlugin), {kCopyAgain});
    if (bytes_.starts_with("!<arch>"))
      fail(fmt::format("is a static archive; {}", kPlugin), {"link it as a shared library"});
    if (!bytes_.starts_with(ELFMAG))
      fail(fmt::format("is not an ELF file, it begins with \"{}\"; {}",
                       printable(std::string_view(bytes_).substr(0, 8)), kPlugin));
    if (bytes_.size() < sizeof(Elf64_Ehdr))
      fail(fmt::format("file has {} bytes, but its ELF header ends at {}; it is truncated",
                       bytes_.size(), sizeof(Elf64_Ehdr)),
           {kCopyAgain});
    header_ = record<Elf64_Ehdr>(0);
    const bool fits =
        header_.e_ident[EI_CLASS] == ELFCLASS64 && header_.e_ident[EI_DATA] == ELFDATA2LSB;
    if (header_.e_ident[EI_CLASS] == ELFCLASS32)
      fail(fmt::format("is a 32-bit library, but this host is {}", host_machine()), {kRebuild});
    if (!fits)
      fail(fmt::format("is not a 64-bit little-endian library, but this host is "
                       "{}",
                       host_machine()),
           {kRebuild});
    if (header_.e_machine != kHostMachine)
      fail(fmt::format("is for {}, but this host is {}", machine_name(header_.e_machine),
                       host_machine()),
           {kRebuild});
    if (header_.e_type == ET_REL)
      fail(fmt::format("is an object file; {}", kPlugin), {"link it as a shared library"});
    if (header_.e_type != ET_DYN) fail(fmt::format("has ELF type {}; {}", header_.e_type, kPlugin));
  }

  void read_tables() {
    if (header_.e_phoff == 0 || header_.e_phnum == 0) damaged("it has no segment table");
    if (header_.e_phentsize != sizeof(Elf64_Phdr))
      damaged(
          fmt::format("entries of its segment table have {} bytes; expected "
                      "{}",
                      header_.e_phentsize, sizeof(Elf64_Phdr)));
    const std::uint64_t segments_bytes = std::uint64_t{header_.e_phnum} * sizeof(Elf64_Phdr);
    require_inside("segment table", header_.e_phoff, segments_bytes);
    for (int i = 0; i < header_.e_phnum; ++i) {
      const auto segment =
          record<Elf64_Phdr>(header_.e_phoff + static_cast<std::uint64_t>(i) * sizeof(Elf64_Phdr));
      require_inside(fmt::format("segment {}", i), segment.p_offset, segment.p_filesz);
      if (segment.p_type == PT_LOAD && segment.p_memsz < segment.p_filesz)
        damaged(fmt::format("its segment {} has {} bytes in the file but {} in memory", i,
                            segment.p_filesz, segment.p_memsz));
      segments_.push_back(segment);
    }

    if (header_.e_shoff == 0 || header_.e_shnum == 0)
      fail(fmt::format("has no section table and therefore no '{}'; a plugin must keep it when "
                       "stripped",
                       kManifestSection),
           {"build it with lamina_add_plugin()"});
    if (header_.e_shentsize != sizeof(Elf64_Shdr))
      damaged(
          fmt::format("entries of its section table have {} bytes; expected "
                      "{}",
                      header_.e_shentsize, sizeof(Elf64_Shdr)));
    require_inside("section table", header_.e_shoff,
                   std::uint64_t{header_.e_shnum} * sizeof(Elf64_Shdr));
    for (int i = 0; i < header_.e_shnum; ++i) {
      const auto section =
          record<Elf64_Shdr>(header_.e_shoff + static_cast<std::uint64_t>(i) * sizeof(Elf64_Shdr));
      if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL)
        require_inside(fmt::format("section {}", i), section.sh_offset, section.sh_size);
      sections_.push_back(section);
    }
  }

  // Returns the bytes of a section. REQUIRES: read_tables() accepted it.
  std::string_view content(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) return {};
    return std::string_view(bytes_).substr(section.sh_offset, section.sh_size);
  }
  const Elf64_Shdr& section(std::uint64_t index, std::string_view of) const {
    if (index >= sections_.size())
      damaged(fmt::format("its {} points to section {} of {}", of, index, sections_.size()));
    return sections_[index];
  }
  std::string text(const Elf64_Shdr& table, std::uint64_t offset, std::string_view of) const {
    const std::string_view all = content(table);
    const std::size_t end = offset < all.size() ? all.find('\0', offset) : all.npos;
    if (end == all.npos) damaged(fmt::format("a name in its {} is outside the table", of));
    return std::string(all.substr(offset, end - offset));
  }

  void read_dynamic_symbols(ElfFile& out) const {
    const auto table = std::find_if(sections_.begin(), sections_.end(),
                                    [](const Elf64_Shdr& s) { return s.sh_type == SHT_DYNSYM; });
    std::optional<Elf64_Sym> entry;
    if (table != sections_.end()) {
      const Elf64_Shdr& names = section(table->sh_link, "symbol table");
      for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size;
           at += sizeof(Elf64_Sym)) {
        const auto symbol = record<Elf64_Sym>(table->sh_offset + at);
        const int binding = ELF64_ST_BIND(symbol.st_info);
        const int visibility = ELF64_ST_VISIBILITY(symbol.st_other);
        if (binding == STB_LOCAL) continue;
        if (symbol.st_shndx == SHN_UNDEF) {
          out.imports.push_back(text(names, symbol.st_name, "symbol table"));
          continue;
        }
        if (visibility == STV_HIDDEN || visibility == STV_INTERNAL) continue;
        if (binding == STB_GNU_UNIQUE) ++out.num_unique_symbols;
        out.exports.push_back(text(names, symbol.st_name, "symbol table"));
        if (out.exports.back() == kEntrySymbol) entry = symbol;
      }
    }
    std::sort(out.exports.begin(), out.exports.end());
    check_entry(out, entry);
  }

  void check_entry(const ElfFile& out, const std::optional<Elf64_Sym>& entry) const {
    if (!entry) {
      for (const std::string& symbol : out.exports)
        if (symbol.starts_with("lamina_plugin_v"))
          fail(fmt::format("exports '{}', but this host reads '{}'", symbol, kEntrySymbol),
               {"rebuild it against the plugin_api of this host"});
      fail(fmt::format("is a shared library but not a plugin: it does not export '{}'",
                       kEntrySymbol),
           {"build it with lamina_add_plugin(), and end one source with LAMINA_PLUGIN(...)"});
    }
    if (ELF64_ST_TYPE(entry->st_info) != STT_OBJECT)
      fail(fmt::format("exports '{}', but not as data; it must be a const lamina_plugin_t",
                       kEntrySymbol),
           {"end one source with LAMINA_PLUGIN(...)"});
  }

  void read_dynamic_section(ElfFile& out) const {
    const auto dynamic = std::find_if(sections_.begin(), sections_.end(),
                                      [](const Elf64_Shdr& s) { return s.sh_type == SHT_DYNAMIC; });
    if (dynamic == sections_.end()) damaged("it has no dynamic section");
    const Elf64_Shdr& names = section(dynamic->sh_link, "dynamic section");
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->sh_size;
         at += sizeof(Elf64_Dyn)) {
      const auto item = record<Elf64_Dyn>(dynamic->sh_offset + at);
      if (item.d_tag == DT_NULL) break;
      if (item.d_tag == DT_TEXTREL || (item.d_tag == DT_FLAGS && (item.d_un.d_val & DF_TEXTREL)))
        out.text_relocations = true;
      if (item.d_tag == DT_INIT_ARRAYSZ)
        out.num_constructors = static_cast<int>(item.d_un.d_val / sizeof(Elf64_Addr));
      if (item.d_tag == DT_NEEDED)
        out.needed.push_back(text(names, item.d_un.d_val, "dynamic section"));
      if (item.d_tag == DT_RPATH || item.d_tag == DT_RUNPATH)
        out.run_path = text(names, item.d_un.d_val, "dynamic section");
    }
  }

  // Two nested lists in one section: libraries, and the versions of each, linked by offsets.
  void read_versions(ElfFile& out) const {
    for (const Elf64_Shdr& table : sections_) {
      if (table.sh_type != SHT_GNU_verneed) continue;
      const Elf64_Shdr& names = section(table.sh_link, "table of versions");
      std::uint64_t at = 0;
      for (std::uint32_t i = 0; i < table.sh_info; ++i) {
        const auto library = version_record<Elf64_Verneed>(table, at);
        std::uint64_t version_at = at + library.vn_aux;
        for (int n = 0; n < library.vn_cnt; ++n) {
          const auto version = version_record<Elf64_Vernaux>(table, version_at);
          if (out.versions.size() == kMaxVersions)
            damaged("its table of versions is not terminated");
          out.versions.push_back(text(names, version.vna_name, "table of versions"));
          if (version.vna_next == 0) break;
          version_at += version.vna_next;
        }
        if (library.vn_next == 0) break;
        at += library.vn_next;
      }
    }
  }
  template <typename T>
  T version_record(const Elf64_Shdr& table, std::uint64_t at) const {
    if (at > table.sh_size || sizeof(T) > table.sh_size - at)
      damaged("an entry of its table of versions is outside it");
    return record<T>(table.sh_offset + at);
  }

  void read_manifest(ElfFile& out) const {
    const Elf64_Shdr& names = section(header_.e_shstrndx, "header");
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type == SHT_NULL || text(names, s.sh_name, "section table") != kManifestSection)
        continue;
      if (s.sh_size > kMaxManifestBytes)
        fail(fmt::format("its manifest has {} bytes; the maximum is {}", grouped(s.sh_size),
                         grouped(kMaxManifestBytes)));
      std::string_view manifest = content(s);
      while (manifest.ends_with('\0')) manifest.remove_suffix(1);
      out.manifest = manifest;
      return;
    }
    fail(fmt::format("has no manifest: section '{}' is missing", kManifestSection),
         {"build it with lamina_add_plugin(), which writes the section"});
  }

  static constexpr const char* kRebuild = "rebuild it for this machine";

  std::string path_;
  std::string bytes_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace

std::string_view host_machine() {
  static const std::string name = machine_name(kHostMachine);
  return name;
}

ElfFile read_elf(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found)
    throw PluginError({name, "no such file", {"check the path"}});
  if (status.type() == std::filesystem::file_type::directory)
    throw PluginError(
        {name, "is a directory; expected a file", {"give the path of a .lamina.so file"}});
  if (!status_known(status))
    throw PluginError({name,
                       fmt::format("cannot be read: {}", system_error_text(error.value())),
                       {"check the path and its permissions"}});
  if (status.type() != std::filesystem::file_type::regular)
    throw PluginError({name, "is not a regular file; expected an ELF shared library", {}});
  try {
    return Reader(name, read_file(name, ExitCode::plugin, kMaxFileBytes)).read();
  } catch (const UserError& unreadable) {
    if (unreadable.text().what.ends_with(system_error_text(EMFILE)))
      throw DeviceError(ExitCode::memory, unreadable.text());  // not the plugin's fault
    throw PluginError(unreadable.text());
  }
}

namespace {

// Runtime libraries of C, C++ and the sanitizers.
constexpr std::string_view kRuntimeLibraries[] = {
    "libc.so.",      "libm.so.",      "libstdc++.so.", "libgcc_s.so.",   "libc++.so.",
    "libc++abi.so.", "libunwind.so.", "ld-linux",      "libpthread.so.", "libdl.so.",
    "libasan.so.",   "libubsan.so.",  "libtsan.so.",   "libclang_rt."};

}  // namespace

std::vector<std::string> symbol_problems(const ElfFile& file) {
  std::vector<std::string> out;
  for (const std::string& symbol : file.exports)
    if (symbol != kEntrySymbol)
      out.push_back(fmt::format("exports '{}'; only '{}' is allowed", symbol, kEntrySymbol));
  if (file.num_unique_symbols > 0)
    out.push_back(fmt::format("has {} unique symbols; compile with -fno-gnu-unique",
                              file.num_unique_symbols));
  return out;
}

std::vector<std::string> loading_problems(const ElfFile& file) {
  std::vector<std::string> out;
  for (const std::string& library : file.needed)
    if (std::none_of(std::begin(kRuntimeLibraries), std::end(kRuntimeLibraries),
                     [&](std::string_view known) { return library.starts_with(known); }))
      out.push_back(
          fmt::format("depends on '{}'; only the runtime libraries of C and C++ are "
                      "allowed",
                      library));
  if (!file.run_path.empty())
    out.push_back(fmt::format("has the run path '{}', which is not allowed", file.run_path));
  if (file.text_relocations) out.emplace_back("has text relocations; compile with -fPIC");
  if (file.executable_stack)
    out.emplace_back("requests an executable stack; link with -z noexecstack");
  return out;
}

void check_file_rules(const ElfFile& file) {
  std::vector<std::string> problems = symbol_problems(file);
  for (std::string& problem : loading_problems(file)) problems.push_back(std::move(problem));
  if (problems.empty()) return;
  constexpr std::size_t kMaxShown = 4;
  std::string what = problems[0];
  problems.erase(problems.begin());
  if (problems.size() > kMaxShown) problems.resize(kMaxShown);
  problems.emplace_back("build it with lamina_add_plugin()");
  throw PluginError({file.path, std::move(what), std::move(problems)});
}

}  // namespace lamina::registry
