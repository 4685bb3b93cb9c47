// The choice of instruction set.
#include "backends/cpu/threads/isa.h"

#include <cstdlib>

#include "support/expect_error.h"

namespace lamina::cpu {
namespace {

TEST(Isa, ScopedIsaLowersTheAnswerAndRestoresIt) {
  const Isa before = best_isa();
  {
    const ScopedIsa scoped(Isa::portable);
    EXPECT_EQ(best_isa(), Isa::portable);
  }
  EXPECT_EQ(best_isa(), before);
}

TEST(Isa, ScopedIsaNeverExceedsTheMachine) {
  const Isa before = best_isa();
  const ScopedIsa scoped(Isa::avx512_bf16);
  EXPECT_EQ(best_isa(), before);
}

// The choice is kept for the life of a process, so each value needs a new process.
void exit_with_isa_from_environment(const char* value) {
  setenv("LAMINA_CPU_ISA", value, 1);
  try {
    std::_Exit(best_isa() == Isa::portable ? 40 : 41);
  } catch (const UserError& e) {
    std::fputs(e.what(), stderr);
    std::_Exit(static_cast<int>(e.code()));
  }
}

TEST(IsaDeathTest, EnvironmentLowersTheAnswer) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_isa_from_environment("portable"), ::testing::ExitedWithCode(40), "");
}

TEST(IsaDeathTest, UnknownNameInEnvironmentIsAUserError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_isa_from_environment("avx3"), ::testing::ExitedWithCode(2),
              "LAMINA_CPU_ISA: unknown instruction set 'avx3'.*\n"
              ".*use portable, avx2, avx512 or avx512_bf16");
}

TEST(Isa, NamesEqualTheEnvironmentValues) {
  EXPECT_EQ(name(Isa::portable), "portable");
  EXPECT_EQ(name(Isa::avx512_bf16), "avx512_bf16");
}

}  // namespace
}  // namespace lamina::cpu
