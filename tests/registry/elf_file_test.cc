// Reading plugins without running them: every file that is not a plugin is refused with a message.
#include "registry/elf_file.h"

#include <elf.h>
#include <gtest/gtest.h>

#include "registry/zoo.h"
#include "support/expect_error.h"

namespace lamina::registry {
namespace {

// Returns the error of reading `bytes` as a plugin, without the file's name; "" if it is read.
std::string refusal(const Folder& folder, const std::string& bytes) {
  const std::filesystem::path path = folder.write("x.lamina.so", bytes);
  try {
    read_elf(path);
  } catch (const PluginError& error) {
    EXPECT_EQ(error.text().where, path.string());
    return error.text().what;
  }
  return "";
}

TEST(ElfFile, Example) {
  const ElfFile elf = read_elf(zoo("tiny"));
  EXPECT_EQ(elf.machine, host_machine());
  EXPECT_EQ(elf.exports, std::vector<std::string>{"lamina_plugin_v0"});
  EXPECT_EQ(elf.num_bytes, bytes_of(zoo("tiny")).size());
  EXPECT_TRUE(elf.manifest.starts_with("{\"id\": \"org.example.tiny\"")) << elf.manifest;
  EXPECT_TRUE(elf.manifest.ends_with("}"));
  EXPECT_FALSE(elf.executable_stack);
}

TEST(ElfFile, RefusesAFileCutAnywhere) {
  const Folder folder;
  const std::string whole = bytes_of(zoo("tiny"));
  ASSERT_EQ(refusal(folder, whole), "");
  for (std::size_t length = 0; length < whole.size(); length += length < 256 ? 1 : 61)
    EXPECT_NE(refusal(folder, whole.substr(0, length)), "") << length << " bytes were accepted";
  EXPECT_NE(refusal(folder, whole.substr(0, whole.size() - 1)), "");
}

TEST(ElfFile, SaysWhereACutFileShouldEnd) {
  const Folder folder;
  const std::string whole = bytes_of(zoo("tiny"));
  EXPECT_EQ(refusal(folder, whole.substr(0, 40)),
            "file has 40 bytes, but its ELF header ends at 64; it is truncated");
  const std::string what = refusal(folder, whole.substr(0, whole.size() - 1));
  EXPECT_TRUE(what.starts_with("file has ")) << what;
  EXPECT_TRUE(what.ends_with("; it is truncated")) << what;
}

TEST(ElfFile, SurvivesDamageInEveryByteOfItsTables) {
  const Folder folder;
  const std::string whole = bytes_of(zoo("tiny"));
  Elf64_Ehdr header;
  std::memcpy(&header, whole.data(), sizeof header);
  for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{0, sizeof header},
                                     {header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)},
                                     {header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr)}})
    for (std::size_t at = first; at < first + count; ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(~damaged[at]);
      refusal(folder, damaged);  // accepted or refused, but never a crash
    }
}

TEST(ElfFile, ALibraryWithoutAStackSegmentHasAnExecutableStack) {
  const Folder folder;
  std::string bytes = bytes_of(zoo("tiny"));
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const std::size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + at, sizeof segment);
    if (segment.p_type == PT_GNU_STACK) segment.p_type = PT_NULL;
    std::memcpy(bytes.data() + at, &segment, sizeof segment);
  }
  const ElfFile elf = read_elf(folder.write("x.lamina.so", bytes));
  EXPECT_TRUE(elf.executable_stack);
  EXPECT_ERROR_SAYS(check_file_rules(elf), ExitCode::plugin,
                    "requests an executable stack; link with -z noexecstack");
}

TEST(ElfFile, NamesTheMachineOfAForeignLibrary) {
  const Folder folder;
  std::string bytes = bytes_of(zoo("tiny"));
  bytes[offsetof(Elf64_Ehdr, e_machine)] = static_cast<char>(EM_AARCH64);
  if (host_machine() == "x86-64") {
    EXPECT_EQ(refusal(folder, bytes), "is for aarch64, but this host is x86-64");
  }
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(refusal(folder, bytes),
            fmt::format("is a 32-bit library, but this host is {}", host_machine()));
}

TEST(ElfFile, RefusesFilesThatAreNotSharedLibraries) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, ""), "the file is empty; expected an ELF shared library");
  EXPECT_EQ(refusal(folder, "#!/bin/sh\necho\n"),
            "is not an ELF file, it begins with \"#!/bin/s\"; expected an ELF shared library");
  EXPECT_EQ(refusal(folder, "!<arch>\nx"), "is a static archive; expected an ELF shared library");
  std::string object = bytes_of(zoo("tiny"));
  object[offsetof(Elf64_Ehdr, e_type)] = ET_REL;
  EXPECT_EQ(refusal(folder, object), "is an object file; expected an ELF shared library");
  EXPECT_ERROR_SAYS(read_elf(folder.path()), ExitCode::plugin, "is a directory");
  EXPECT_ERROR_SAYS(read_elf(folder / "absent.lamina.so"), ExitCode::plugin, "no such file");
}

TEST(ElfFile, RefusesALibraryWithoutManifestOrEntry) {
  EXPECT_ERROR_SAYS(read_elf(zoo("no_manifest")), ExitCode::plugin,
                    "has no manifest: section '.lamina.manifest' is missing");
  EXPECT_ERROR_SAYS(read_elf(zoo("no_entry")), ExitCode::plugin,
                    "is a shared library but not a plugin: it does not export 'lamina_plugin_v0'");
  EXPECT_ERROR_SAYS(read_elf(zoo("function_entry")), ExitCode::plugin,
                    "exports 'lamina_plugin_v0', but not as data");
}

TEST(FileRules, EachBrokenOneHasAMessage) {
  const auto fine = ElfFile{.path = "p", .exports = {"lamina_plugin_v0"}, .needed = {"libm.so.6"}};
  check_file_rules(fine);
  const auto refused = [&](void (*change)(ElfFile&), const char* says) {
    ElfFile file = fine;
    change(file);
    EXPECT_ERROR_SAYS(check_file_rules(file), ExitCode::plugin, says);
  };
  refused([](ElfFile& f) { f.exports.push_back("x"); },
          "p: exports 'x'; only 'lamina_plugin_v0' is allowed");
  refused([](ElfFile& f) { f.num_unique_symbols = 2; }, "p: has 2 unique symbols");
  refused([](ElfFile& f) { f.needed.push_back("libcurl.so.4"); },
          "p: depends on 'libcurl.so.4'; only the runtime libraries of C and C++ are allowed");
  refused([](ElfFile& f) { f.run_path = "/tmp"; }, "p: has the run path '/tmp'");
  refused([](ElfFile& f) { f.text_relocations = true; }, "p: has text relocations");
  refused([](ElfFile& f) { f.executable_stack = true; }, "p: requests an executable stack");
}

}  // namespace
}  // namespace lamina::registry
