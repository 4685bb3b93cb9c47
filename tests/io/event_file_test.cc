// Event files: frames, checksums and messages in TensorBoard's format.
#include "io/event_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/event_reader.h"

namespace lamina::io {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(EventFile, Example) {
  const EventScalar scalars[] = {{"train/loss", 5.5f}, {"train/lr", 1e-3f}};
  const std::string bytes =
      event_file_version(1.5) + event_session_start(2.5, 8) + event_scalars(3.5, 300, scalars);
  const std::vector<testing::Event> events = testing::EventReader(bytes).events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1.5);
  EXPECT_EQ(events[1].session_status, 1u);
  EXPECT_EQ(events[1].step, 8);
  EXPECT_EQ(events[2].wall_time, 3.5);
  EXPECT_EQ(events[2].step, 300);
  EXPECT_THAT(events[2].scalars, ElementsAre(Pair("train/loss", 5.5f), Pair("train/lr", 1e-3f)));
}

// RFC 3720, B.4, and the check value of the catalogue of CRCs.
TEST(EventFile, ChecksumEqualsTheRfc) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(""), 0u);
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

// The bytes that RecordWriter and event_pb2 of the Python package tensorboard 2.21.0 write for
// these events.
TEST(EventFile, BytesEqualTensorboardsWriter) {
  const EventScalar scalars[] = {{"train/loss", 5.5f}, {"train/lr", 0.25f}};
  EXPECT_EQ(hex(event_file_version(1.5)),
            "1800000000000000a37f4b22"
            "09000000000000f83f1a0d627261696e2e4576656e743a32"
            "2a28646c");
  EXPECT_EQ(hex(event_session_start(2.5, 8)),
            "0f000000000000006d532b09"
            "09000000000000044010083a020801"
            "b8092dca");
  EXPECT_EQ(hex(event_scalars(3.5, 300, scalars)),
            "3200000000000000241956ec"
            "090000000000000c4010ac022a240a110a0a747261696e2f6c6f7373150000b0400a0f0a08747261696e2f"
            "6c72150000803e"
            "8a6e4333");
}

TEST(EventFile, LargeStepsAndNaNsArriveUnchanged) {
  const EventScalar scalars[] = {{"a", INFINITY}, {"b", NAN}, {std::string_view(""), -0.0f}};
  const std::string bytes = event_scalars(0, 1'000'000'000'000, scalars);
  const testing::Event event = testing::EventReader(bytes).events().at(0);
  EXPECT_EQ(event.step, 1'000'000'000'000);
  EXPECT_EQ(event.scalars.at(0).second, INFINITY);
  EXPECT_TRUE(std::isnan(event.scalars.at(1).second));
  EXPECT_TRUE(std::signbit(event.scalars.at(2).second));
}

TEST(EventFile, ADamagedByteIsFoundWhereverItIs) {
  const EventScalar scalars[] = {{"train/loss", 5.5f}};
  const std::string whole = event_scalars(3.5, 300, scalars);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_THROW(testing::EventReader(damaged).events(), std::runtime_error) << "byte " << i;
  }
}

}  // namespace
}  // namespace lamina::io
