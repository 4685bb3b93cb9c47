// Safetensors files: views into the file, and the messages of refusals.
#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::io {
namespace {

using testing::TempDir;

std::string file_with(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  bytes += header;
  for (std::size_t i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i);
  return bytes;
}

std::string error_of(std::string_view header, std::size_t data_bytes) {
  TempDir dir;
  const std::string path = dir.write("m.safetensors", file_with(header, data_bytes));
  try {
    SafetensorsFile file(path);
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ExitCode::checkpoint);
    return std::string(e.what()).substr(dir.path().size() + 1);
  }
  return "accepted";
}

TEST(Safetensors, Example) {
  TempDir dir;
  const std::string path = dir.write(
      "m.safetensors",
      file_with(
          R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[],"data_offsets":[4,5]},)"
          R"("a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}})",
          5));
  const SafetensorsFile file(path);
  const TensorView a = file.tensor("a");
  EXPECT_EQ(a.dtype, DType::bf16);
  EXPECT_EQ(a.shape, Shape({2, 1}));
  EXPECT_EQ(a.bytes.size(), 4u);
  EXPECT_EQ(file.tensor("b").bytes[0], std::byte{4});
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST(Safetensors, NoMetadataMayBeANull) {
  EXPECT_EQ(
      error_of(R"({"__metadata__":null,"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
      "accepted");
}

TEST(Safetensors, NamesTheNearestTensorWhenOneIsMissing) {
  TempDir dir;
  const std::string path =
      dir.write("m.safetensors",
                file_with(R"({"norm.weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
  EXPECT_USER_ERROR(
      SafetensorsFile(path).tensor("norm.wieght"), ExitCode::checkpoint,
      path + ": has no tensor 'norm.wieght' among its 1\n  did you mean 'norm.weight'?");
}

TEST(Safetensors, RefusesATruncatedFileWithBothNumbers) {
  EXPECT_EQ(error_of(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 6),
            "m.safetensors: tensor 'w': ends at byte 8 of the data, but the file has only 6; it is "
            "truncated\n"
            "  the file is damaged or was written by a faulty program: download or write it again");
}

TEST(Safetensors, RefusesAWrongSizeWithBothNumbers) {
  EXPECT_EQ(
      error_of(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}})", 20),
      "m.safetensors: tensor 'w': F32 [2, 3] needs 24 bytes, but data_offsets [0, 20] span 20\n"
      "  the file is damaged or was written by a faulty program: download or write it again");
}

TEST(Safetensors, RefusesOverlapAndTrailingBytes) {
  EXPECT_EQ(
      error_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
               R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
               5),
      "m.safetensors: tensor 'b': begins at byte 3 of the data, but 'a' ends at 4; tensors must "
      "neither overlap nor leave gaps\n"
      "  the file is damaged or was written by a faulty program: download or write it again");
  EXPECT_EQ(error_of("{}", 3),
            "m.safetensors: 3 bytes of data follow the header, but its 0 tensors need 0\n"
            "  the file is damaged or was written by a faulty program: download or write it again");
}

TEST(Safetensors, RefusesTypesItOnlyLists) {
  TempDir dir;
  const SafetensorsFile file(dir.write(
      "m.safetensors", file_with(R"({"w":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", 1)));
  EXPECT_EQ(file.find("w")->type, "F4");
  EXPECT_ERROR_SAYS(file.tensor("w"), ExitCode::checkpoint, "stored as F4");
}

TEST(Safetensors, RefusesEveryTruncationOfAFile) {
  TempDir dir;
  const std::string whole =
      file_with(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", 12);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const std::string path = dir.write("cut.safetensors", whole.substr(0, n));
    EXPECT_THROW(SafetensorsFile{path}, UserError) << n << " bytes";
  }
}

TEST(Safetensors, FlippedHeaderBitsAreRefusedOrLeaveAValidFile) {
  TempDir dir;
  const std::string whole =
      file_with(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", 12);
  for (std::size_t bit = 0; bit < (whole.size() - 12) * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    try {
      const SafetensorsFile file(dir.write("bit.safetensors", flipped));
      ASSERT_EQ(file.tensors().size(), 1u);
      EXPECT_EQ(file.tensors()[0].bytes.size(), 12u);
    } catch (const UserError&) {
    }
  }
}

TEST(Safetensors, NamesAMissingFileAndADirectory) {
  TempDir dir;
  EXPECT_ERROR_SAYS(SafetensorsFile(dir / "none"), ExitCode::checkpoint,
                    "none: cannot be read: no such file or directory");
  EXPECT_ERROR_SAYS(SafetensorsFile(dir.path()), ExitCode::checkpoint,
                    "is a directory; expected a file");
}

TEST(Safetensors, EveryDTypeHasAName) {
  EXPECT_EQ(safetensors_type(DType::boolean), "BOOL");
  for (int i = 1; i <= 16; ++i) EXPECT_NE(safetensors_type(static_cast<DType>(i)), "");
}

}  // namespace
}  // namespace lamina::io
