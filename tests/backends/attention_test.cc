// Attention kernels, compared with the reference: every mask and logit variant, dtype and
// instruction set.
#include <gtest/gtest.h>

#include "attention_checks.h"
#include "backends/cpu/gemm/matrix_unit.h"
#include "backends/cpu/threads/threads.h"
#include "support/amx_emulator.h"

namespace lamina::cpu {
namespace {

struct Case {
  std::string name;
  AttentionProblem problem;
};

// Documents of `length` tokens, ids 1, 2, ...; the last `padding` tokens have id -1.
std::vector<std::int32_t> documents(const AttentionSpec& s, int length, int padding) {
  std::vector<std::int32_t> ids;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t t = 0; t < s.q_tokens; ++t)
      ids.push_back(t >= s.q_tokens - padding ? 0
                                              : static_cast<std::int32_t>(t / (length + b) + 1));
  return ids;
}

std::vector<Case> sizes() {
  std::vector<Case> cases;
  for (std::int64_t tokens : {1, 17, 63, 65, 129})
    for (std::int64_t dim : {20, 64, 80, 128})
      cases.push_back({"tokens " + std::to_string(tokens) + " dim " + std::to_string(dim),
                       random_problem(make_spec(2, tokens, tokens, 3, 1, dim, dim))});
  for (std::int64_t group : {1, 3, 8})
    cases.push_back({"group " + std::to_string(group),
                     random_problem(make_spec(2, 70, 70, 2 * group, 2, 32, 48))});
  cases.push_back({"odd dims", random_problem(make_spec(1, 33, 33, 2, 2, 7, 13))});
  cases.push_back({"wide", random_problem(make_spec(1, 40, 40, 2, 1, 256, 250))});
  cases.push_back({"queries at the end", random_problem(make_spec(2, 5, 150, 4, 2, 64, 64))});
  cases.push_back({"long", random_problem(make_spec(1, 400, 400, 2, 1, 64, 64))});
  return cases;
}

std::vector<Case> variants() {
  const AttentionSpec base = make_spec(2, 150, 150, 6, 2, 32, 32);
  std::vector<Case> cases;
  auto add = [&](const std::string& name, auto change) {
    AttentionProblem p = random_problem(base, 7);
    change(p);
    cases.push_back({name, p});
  };
  auto segments = [](AttentionProblem& p, int length, int padding) {
    p.q_segments = p.k_segments = documents(p.spec, length, padding);
  };
  auto sinks = [](AttentionProblem& p) { p.sinks = random_numbers(p.spec.heads, 5, 2); };
  auto slopes = [](AttentionProblem& p) { p.slopes = random_numbers(p.spec.heads, 13, 0.1); };
  auto table = [](AttentionProblem& p) { p.table = random_numbers(p.spec.heads * 70, 17); };
  auto blocks = [](AttentionProblem& p) {
    p.q_blocks.assign(static_cast<std::size_t>(p.spec.batch * p.spec.q_tokens), 0);
    for (std::size_t t = 10; t < 90; ++t) p.q_blocks[t] = 1;
    for (std::size_t t = 200; t < 230; ++t) p.q_blocks[t] = 2;
    p.k_blocks = p.q_blocks;
  };
  add("not causal", [](AttentionProblem& p) { p.spec.causal = false; });
  add("window 1", [](AttentionProblem& p) { p.spec.window = 1; });
  add("window 40", [](AttentionProblem& p) { p.spec.window = 40; });
  add("chunk 48", [](AttentionProblem& p) { p.spec.chunk = 48; });
  add("chunk 48, not causal", [](AttentionProblem& p) {
    p.spec.chunk = 48;
    p.spec.causal = false;
  });
  add("soft cap", [](AttentionProblem& p) {
    p.spec.soft_cap = 1.5;
    p.spec.scale = 0.5;
  });
  add("sinks", sinks);
  add("segments", [&](AttentionProblem& p) { segments(p, 23, 0); });
  add("segments and padding", [&](AttentionProblem& p) { segments(p, 70, 30); });
  add("padding and sinks", [&](AttentionProblem& p) {
    segments(p, 70, 30);
    sinks(p);
  });
  add("blocks", blocks);
  add("slopes", slopes);
  add("slopes, not causal", [&](AttentionProblem& p) {
    slopes(p);
    p.spec.causal = false;
  });
  add("table of distances", table);
  add("table, slopes and a cap", [&](AttentionProblem& p) {
    slopes(p);
    table(p);
    p.spec.soft_cap = 1.5;
  });
  add("everything", [&](AttentionProblem& p) {
    segments(p, 70, 30);
    sinks(p);
    blocks(p);
    slopes(p);
    table(p);
    p.spec.soft_cap = 2;
    p.spec.window = 50;
    p.spec.chunk = 60;
  });
  add("positions", [&](AttentionProblem& p) {
    for (std::int64_t i = 0; i < 300; ++i)
      p.q_positions.push_back(static_cast<std::int32_t>((i * 37) % 150));
    p.k_positions = p.q_positions;
    p.spec.window = 60;
  });
  add("no key is early enough", [](AttentionProblem& p) {
    p.k_positions.assign(300, 1000);
    p.q_positions.assign(300, 999);
  });
  add("large logits", [](AttentionProblem& p) { p.spec.scale = 20; });
  add("negative scale", [](AttentionProblem& p) { p.spec.scale = -0.3; });
  return cases;
}

std::vector<Case> cached_cases() {
  std::vector<Case> cases;
  for (std::int64_t tokens : {1, 4, 8, 40})
    for (std::int64_t group : {1, 3, 8}) {
      const std::string name = std::to_string(tokens) + " tokens, group " + std::to_string(group);
      const AttentionSpec spec = make_spec(1, tokens, 300, 2 * group, 2, 64, 64);
      cases.push_back({name, cached_problem(spec, {0, 130, 255}, false)});
      AttentionSpec window = spec;
      window.window = 40;
      cases.push_back({name + ", window", cached_problem(window, {0, 130, 255}, false)});
      window.kv_tokens = 100;
      cases.push_back({name + ", ring", cached_problem(window, {0, 40, 99, 1000}, true)});
    }
  for (std::int64_t dim : {20, 33, 80, 128, 200}) {
    AttentionSpec spec = make_spec(1, 2, 300, 6, 2, dim, dim + 4);
    cases.push_back({"dim " + std::to_string(dim), cached_problem(spec, {290, 17}, false)});
  }
  AttentionSpec spec = make_spec(1, 3, 300, 6, 2, 32, 32);
  spec.chunk = 100;
  cases.push_back({"chunk", cached_problem(spec, {290, 99, 100}, false)});
  spec.chunk = 0;
  spec.soft_cap = 1.5;
  cases.push_back({"soft cap", cached_problem(spec, {290, 99, 100}, false)});
  const AttentionSpec split = make_spec(1, 8, 1100, 3, 1, 32, 32);  // one block, keys in splits
  cases.push_back({"splits of a block", cached_problem(split, {1000, 520, 90}, false)});
  cases.push_back({"sinks", cached_problem(spec, {290, 99, 0}, false)});
  cases.back().problem.sinks = random_numbers(6, 11, 3);
  auto biased = [&](const std::string& name, AttentionSpec s, std::vector<std::int32_t> starts,
                    bool ring) {
    cases.push_back({name, cached_problem(s, std::move(starts), ring)});
    cases.back().problem.slopes = random_numbers(s.heads, 13, 0.1);
    cases.back().problem.table = random_numbers(s.heads * 70, 17);
  };
  for (std::int64_t tokens : {1, 3, 40})
    biased("bias, " + std::to_string(tokens) + " tokens", make_spec(1, tokens, 300, 6, 2, 32, 32),
           {255, 99, 0}, false);
  AttentionSpec ring = make_spec(1, 2, 100, 6, 2, 32, 32);
  ring.window = 40;
  biased("bias, ring", ring, {0, 40, 1000}, true);
  biased("bias, splits of a block", split, {1000, 520, 90}, false);
  return cases;
}

void expect_kernels_match_reference(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const AttentionResults want = run_attention(c.problem, DType::f64);
    for (Isa isa : isas())
      for (DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(c.name + ", " + std::string(name(isa)) + ", " + std::string(name(dtype)));
        const ScopedIsa scoped(isa);
        // Logits of hundreds make the softmax a choice: rounding decides between near ties.
        expect_close(run_attention(c.problem, dtype), want, dtype,
                     c.name == "large logits" ? 20 : 1);
      }
  }
}

TEST(Attention, KernelsMatchReferenceAtAwkwardSizes) { expect_kernels_match_reference(sizes()); }

TEST(Attention, KernelsMatchReferenceForEveryVariant) {
  expect_kernels_match_reference(variants());
}

TEST(Attention, CachedKernelsMatchReference) { expect_kernels_match_reference(cached_cases()); }

// Only kernels for avx512_bf16 have words of two bf16, the operands of tiles.
constexpr const char* kNeedsPairs = "attention uses tiles only on machines with vdpbf16ps";

TEST(Attention, ProductsByTheUnitOfTilesMatchReference) {
  if (best_isa() < Isa::avx512_bf16) GTEST_SKIP() << kNeedsPairs;
  const ScopedMatrixUnit unit(MatrixUnit::emulated);
  for (const auto& cases : {sizes(), variants(), cached_cases()})
    for (const Case& c : cases) {
      SCOPED_TRACE(c.name);
      expect_close(run_attention(c.problem, DType::bf16), run_attention(c.problem, DType::f64),
                   DType::bf16, c.name == "large logits" ? 20 : 1);
    }
}

TEST(Attention, AmxHasTheBitsOfThePlainUnit) {
  if (best_isa() < Isa::avx512_bf16) GTEST_SKIP() << kNeedsPairs;
  const testing::AmxEmulator amx;
  for (const auto& [tokens, qk_dim, v_dim] :
       {std::array<std::int64_t, 3>{17, 20, 13}, {70, 80, 64}, {129, 32, 50}}) {
    const AttentionProblem p = random_problem(make_spec(1, tokens, tokens, 2, 1, qk_dim, v_dim));
    const auto run = [&](MatrixUnit unit) {
      const ScopedMatrixUnit scoped(unit);
      return run_attention(p, DType::bf16);
    };
    const AttentionResults want = run(MatrixUnit::emulated), got = run(MatrixUnit::amx);
    EXPECT_EQ(got.o, want.o) << tokens;
    EXPECT_EQ(got.lse, want.lse) << tokens;
    EXPECT_EQ(got.dq, want.dq) << tokens;
    EXPECT_EQ(got.dk, want.dk) << tokens;
    EXPECT_EQ(got.dv, want.dv) << tokens;
  }
  if (!has_matrix_unit()) {
    EXPECT_GT(amx.instructions(), 0);
  }
}

TEST(Attention, CachedNumbersMatchReference) {
  for (const CachedRows cached : {CachedRows::int8, CachedRows::e4m3})
    for (const Case& c : cached_cases()) {
      AttentionProblem numbers = c.problem;
      numbers.spec.cached = cached;
      const AttentionResults want = reference_of_numbers(numbers);
      for (Isa isa : isas())
        for (DType dtype : {DType::f32, DType::bf16}) {
          SCOPED_TRACE(c.name + ", " + std::string(name(isa)) + ", " + std::string(name(dtype)));
          const ScopedIsa scoped(isa);
          expect_close(run_attention(numbers, dtype), want, dtype);
        }
    }
}

// Decoding token by token and in chunks from a cache equals one pass over all tokens.
TEST(Attention, DecodingEqualsPrefill) {
  const std::int64_t length = 90, heads = 4, kv_heads = 2, dim = 32;
  AttentionSpec spec = make_spec(1, length, length, heads, kv_heads, dim, dim);
  spec.window = 60;
  const AttentionProblem whole = random_problem(spec);
  for (Isa isa : isas())
    for (DType dtype : {DType::f32, DType::bf16})
      for (std::int64_t step : {1, 7, 45}) {
        SCOPED_TRACE(std::string(name(isa)) + ", " + std::string(name(dtype)) + ", " +
                     std::to_string(step));
        const ScopedIsa scoped(isa);
        const AttentionResults want = run_attention(whole, dtype, false);
        Doubles got;
        for (std::int64_t start = 0; start < length; start += step) {
          AttentionProblem p = whole;
          p.spec.q_tokens = std::min(step, length - start);
          p.starts = {static_cast<std::int32_t>(start)};
          p.q.assign(whole.q.begin() + start * heads * dim,
                     whole.q.begin() + (start + p.spec.q_tokens) * heads * dim);
          const AttentionResults r = run_attention(p, dtype);
          got.insert(got.end(), r.o.begin(), r.o.end());
        }
        EXPECT_LT(difference(got, want.o), dtype == DType::f32 ? 1e-6 : 5e-3);
      }
}

TEST(Attention, ReferenceGradientsAreFiniteDifferences) {
  for (bool everything : {false, true}) {
    AttentionProblem p = random_problem(make_spec(2, 7, 7, 4, 2, 3, 5));
    p.sinks = random_numbers(4, 4);
    if (everything) {
      p.spec.soft_cap = 1.5;
      p.spec.window = 4;
      p.q_segments = p.k_segments = documents(p.spec, 5, 1);
      p.q_blocks = p.k_blocks = {0, 1, 1, 1, 0, 0, 0, 0, 0, 2, 2, 0, 0, 0};
    }
    const AttentionResults r = run_attention(p, DType::f64);
    auto objective = [&] {
      const Doubles o = run_attention(p, DType::f64, false).o;
      double sum = 0;
      for (std::size_t i = 0; i < o.size(); ++i) sum += o[i] * p.d_o[i];
      return sum;
    };
    auto expect_gradient = [&](Doubles& x, const Doubles& gradient) {
      ASSERT_EQ(x.size(), gradient.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double at = x[i], h = 1e-5;
        x[i] = at + h;
        const double above = objective();
        x[i] = at - h;
        const double below = objective();
        x[i] = at;
        ASSERT_NEAR((above - below) / (2 * h), gradient[i], 1e-8);
      }
    };
    expect_gradient(p.q, r.dq);
    expect_gradient(p.k, r.dk);
    expect_gradient(p.v, r.dv);
    expect_gradient(p.sinks, r.dsinks);
  }
}

TEST(Attention, RowThatMayAttendToNothingIsZeroWithZeroGradients) {
  for (Isa isa : isas())
    for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      const ScopedIsa scoped(isa);
      AttentionProblem p = random_problem(make_spec(1, 20, 20, 1, 1, 8, 8));
      p.q_segments.assign(20, 1);
      for (std::size_t t = 10; t < 20; ++t) p.q_segments[t] = 0;
      p.k_segments = p.q_segments;
      const AttentionResults r = run_attention(p, dtype);
      for (std::size_t i = 80; i < 160; ++i) {
        EXPECT_EQ(r.o[i], 0);
        EXPECT_EQ(r.dq[i], 0);
        EXPECT_EQ(r.dk[i], 0);
        EXPECT_EQ(r.dv[i], 0);
      }
      EXPECT_EQ(r.lse[10], -std::numeric_limits<double>::infinity());
    }
}

TEST(Attention, EmptyTensorsAreFine) {
  for (Isa isa : isas())
    for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      const ScopedIsa scoped(isa);
      const AttentionResults no_keys =
          run_attention(random_problem(make_spec(1, 3, 0, 2, 1, 8, 8)), dtype);
      EXPECT_EQ(no_keys.o, Doubles(3 * 2 * 8, 0.0));
      EXPECT_EQ(no_keys.dq, Doubles(3 * 2 * 8, 0.0));
      const AttentionResults no_queries =
          run_attention(random_problem(make_spec(1, 0, 3, 2, 1, 8, 8)), dtype);
      EXPECT_EQ(no_queries.dk, Doubles(3 * 8, 0.0));
      EXPECT_EQ(run_attention(random_problem(make_spec(0, 3, 3, 2, 1, 8, 8)), dtype).o, Doubles());
    }
}

TEST(Attention, PackedDocumentsEqualSeparateOnes) {
  // Rows 0..39 and 40..99 of one packed row, compared with two separate runs.
  const AttentionSpec spec = make_spec(1, 100, 100, 2, 2, 16, 16);
  AttentionProblem packed = random_problem(spec);
  packed.q_segments.assign(100, 1);
  for (std::size_t t = 40; t < 100; ++t) packed.q_segments[t] = 2;
  packed.k_segments = packed.q_segments;
  AttentionProblem second = packed;
  second.spec.q_tokens = second.spec.kv_tokens = 60;
  second.q_segments.clear();
  second.k_segments.clear();
  for (Doubles* x : {&second.q, &second.k, &second.v, &second.d_o})
    x->erase(x->begin(), x->begin() + 40 * 2 * 16);
  const AttentionResults a = run_attention(packed, DType::f32);
  const AttentionResults b = run_attention(second, DType::f32);
  EXPECT_LT(difference(Doubles(a.o.begin() + 40 * 32, a.o.end()), b.o), 1e-6);
  EXPECT_LT(difference(Doubles(a.dk.begin() + 40 * 32, a.dk.end()), b.dk), 1e-5);
}

// A row of few is computed like one alone.
TEST(Attention, TokensTogetherHaveTheBitsOfOneAtATime) {
  constexpr std::array<std::int64_t, 3> kTokensGroupDim[] = {
      {2, 1, 128}, {5, 3, 64}, {4, 4, 80}, {7, 2, 33}, {16, 1, 20}};
  constexpr std::int64_t kStart = 250;  // tokens on both sides of the split at slot 256
  for (Isa isa : isas())
    for (const CachedRows cached : {CachedRows::plain, CachedRows::int8, CachedRows::e4m3})
      for (DType dtype : {DType::f32, DType::bf16})
        for (const auto& [tokens, group, dim] : kTokensGroupDim) {
          SCOPED_TRACE(std::string(name(isa)) + ", " + std::to_string(tokens) + " tokens, group " +
                       std::to_string(group) + ", storage " +
                       std::to_string(static_cast<int>(cached)) + ", " + std::string(name(dtype)));
          const ScopedIsa scoped(isa);
          AttentionProblem p = cached_problem(make_spec(1, tokens, 300, 2 * group, 2, dim, dim + 4),
                                              {static_cast<std::int32_t>(kStart)}, false);
          p.spec.cached = cached;
          const Doubles together = run_attention(p, dtype).o;
          const std::int64_t width = 2 * group * dim;
          Doubles alone;
          for (std::int64_t t = 0; t < tokens; ++t) {
            AttentionProblem one = p;
            one.spec.q_tokens = 1;
            one.starts = {static_cast<std::int32_t>(kStart + t)};
            one.q.assign(p.q.begin() + t * width, p.q.begin() + (t + 1) * width);
            const Doubles o = run_attention(one, dtype).o;
            alone.insert(alone.end(), o.begin(), o.end());
          }
          EXPECT_EQ(together, alone);
        }
}

TEST(Attention, SequencesOfABatchHaveTheBitsOfOneAlone) {
  for (Isa isa : isas())
    for (const CachedRows cached : {CachedRows::plain, CachedRows::int8, CachedRows::e4m3})
      for (DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(std::string(name(isa)) + ", storage " +
                     std::to_string(static_cast<int>(cached)) + ", " + std::string(name(dtype)));
        const ScopedIsa scoped(isa);
        AttentionProblem p =
            cached_problem(make_spec(1, 1, 300, 4, 2, 64, 64), {290, 17, 130}, false);
        p.spec.cached = cached;
        const Doubles together = run_attention(p, dtype).o;
        Doubles alone;
        for (std::int64_t b = 0; b < 3; ++b) {
          const auto row = [b](const Doubles& x) {
            const auto size = static_cast<std::ptrdiff_t>(x.size() / 3);
            return Doubles(x.begin() + b * size, x.begin() + (b + 1) * size);
          };
          AttentionProblem one = p;
          one.spec.batch = 1;
          one.starts = {p.starts[static_cast<std::size_t>(b)]};
          one.q = row(p.q);
          one.k = row(p.k);
          one.v = row(p.v);
          const Doubles o = run_attention(one, dtype).o;
          alone.insert(alone.end(), o.begin(), o.end());
        }
        EXPECT_EQ(together, alone);
      }
}

TEST(Attention, BitsDoNotDependOnTheNumberOfThreads) {
  for (Isa isa : isas())
    for (DType dtype : {DType::f32, DType::bf16}) {
      const ScopedIsa scoped(isa);
      AttentionProblem p = random_problem(make_spec(1, 300, 300, 4, 1, 32, 32));
      p.sinks = random_numbers(4, 9);
      set_threads(1);
      const AttentionResults one = run_attention(p, dtype);
      set_threads(2);
      const AttentionResults two = run_attention(p, dtype);
      set_threads(0);
      EXPECT_EQ(one.o, two.o);
      EXPECT_EQ(one.lse, two.lse);
      EXPECT_EQ(one.dq, two.dq);
      EXPECT_EQ(one.dk, two.dk);
      EXPECT_EQ(one.dv, two.dv);
      EXPECT_EQ(one.dsinks, two.dsinks);
      for (std::int64_t tokens : {1, 20})
        for (const CachedRows rows : {CachedRows::plain, CachedRows::int8, CachedRows::e4m3}) {
          AttentionProblem cached =
              cached_problem(make_spec(1, tokens, 900, 4, 2, 64, 64), {600, 70}, false);
          cached.spec.cached = rows;
          set_threads(1);
          const AttentionResults alone = run_attention(cached, dtype);
          set_threads(2);
          const AttentionResults together = run_attention(cached, dtype);
          set_threads(0);
          EXPECT_EQ(alone.o, together.o);
          EXPECT_EQ(alone.lse, together.lse);
        }
      // One split, which the threads divide by heads.
      const AttentionProblem divided =
          cached_problem(make_spec(1, 1, 128, 4, 2, 64, 64), {100}, false);
      set_threads(1);
      const AttentionResults whole = run_attention(divided, dtype);
      set_threads(2);
      const AttentionResults halves = run_attention(divided, dtype);
      set_threads(0);
      EXPECT_EQ(whole.o, halves.o);
    }
}

}  // namespace
}  // namespace lamina::cpu
