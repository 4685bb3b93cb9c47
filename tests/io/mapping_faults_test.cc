// Files that are truncated while they are mapped.
#include "io/mapping_faults.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "io/mapped_file.h"
#include "support/temp_dir.h"

namespace lamina::io {
namespace {

namespace fs = std::filesystem;

// Reads the last byte of `file` after it was truncated.
void read_after_cut(const MappedFile& file) {
  fs::resize_file(file.path(), 10);
  static_cast<void>(*static_cast<const volatile std::byte*>(&file.bytes().back()));
}

TEST(MappingFaults, AFileThatIsCutWhileMappedEndsWithTheCodeOfItsKind) {
  testing::TempDir dir;
  const std::string first = dir.write("first.txt", std::string(1 << 16, 'a'));
  const std::string second = dir.write("second\x1b.txt", std::string(1 << 16, 'b'));
  const auto cut_the_first = [&] {
    report_mapping_faults();
    const MappedFile data(first, ExitCode::data);
    const MappedFile weights(second, ExitCode::checkpoint);
    read_after_cut(data);
  };
  EXPECT_EXIT(cut_the_first(), ::testing::ExitedWithCode(5),
              "^error: .*/first.txt: can no longer be read: ");
  const auto cut_the_second = [&] {
    report_mapping_faults();
    { const MappedFile before(first, ExitCode::data); }
    const MappedFile moved = MappedFile(second, ExitCode::checkpoint);
    read_after_cut(moved);
  };
  EXPECT_EXIT(cut_the_second(), ::testing::ExitedWithCode(4),
              "^error: .*/second.x1b.txt: can no longer be read: ");
}

TEST(MappingFaults, OtherBusErrorsAreUnchanged) {
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);
        report_mapping_faults();
        raise(SIGBUS);
      },
      ::testing::KilledBySignal(SIGBUS), "^$");
}

}  // namespace
}  // namespace lamina::io
