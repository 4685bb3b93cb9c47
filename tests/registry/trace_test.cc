// Building blocks through the C contract: the calls that reach the host, and every way to fail.
#include "registry/trace.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lamina/abi.h"
#include "registry/abi_read.h"
#include "registry/model.h"
#include "registry/process_guard.h"
#include "support/expect_error.h"

namespace lamina::registry {
namespace {

// Parameters become inputs of the graph; nothing else is interpreted.
class RecordingTrace : public BlockTrace {
 public:
  using BlockTrace::BlockTrace;
  std::vector<int> states;

 protected:
  Tensor make_param(const ParamDesc& param) override {
    return graph().add_input(param.name, {DType::f32, param.shape, {}});
  }
  void make_state(const StateDesc&, int index) override { states.push_back(index); }
  Tensor make_input(InputKind) override {
    return graph().add_input("input", {DType::i32, {2, 3}, {}});
  }
  Tensor make_layer_constant(const std::string& name, const std::vector<double>&) override {
    return graph().add_input(name, {});
  }
  void add_aux(const AuxDesc&) override {}
  void update(const UpdateDesc&) override {}
};

struct Built {
  Graph graph;
  BlockResult result;
};

Tensor carry(Graph& graph) { return graph.add_input("x", {DType::f32, {2, 3, 8}, {}}); }

// Builds the tiny block with `fault`, "" for none.
void build(const std::string& more, Built& out, std::span<const Setting> overrides = {}) {
  RecordingTrace trace(out.graph);
  out.result = build_block(
      tiny(), tiny().block(1), configured(tiny(), more), trace,
      {.carries = {carry(out.graph)}, .overrides = overrides, .place = "layer 0, phase train"});
}
void build(const std::string& more) {
  Built out;
  build(more, out);
}

TEST(Trace, Example) {
  Built out;
  build("", out);
  ASSERT_EQ(out.graph.nodes().size(), 1u);
  const Node& node = out.graph.nodes()[0];
  EXPECT_EQ(node.op->name, "add");
  EXPECT_EQ(node.origin->scope, "layer/inner");
  EXPECT_EQ(node.origin->file, "plugins/tiny/model.c");
  EXPECT_GT(node.origin->line, 0u);
  ASSERT_EQ(out.result.carries.size(), 1u);
  EXPECT_EQ(out.result.carries[0].id, node.outputs[0]);
  EXPECT_EQ(out.graph.value(node.outputs[0]).tag, "out_proj");
  EXPECT_EQ(out.graph.origin(), nullptr);
}

TEST(Trace, KeepsTheStructureOfParametersAndStates) {
  Built out;
  build("", out);
  ASSERT_EQ(out.result.params.size(), 1u);
  const ParamDesc expected = {.name = "inner.weight",
                              .shape = {8},
                              .axes = {intern_axis("norm")},
                              .role = Role::norm,
                              .init = {InitSpec::Kind::normal, 0.5, 0},
                              .decay = false};
  EXPECT_EQ(out.result.params[0], expected);
  ASSERT_EQ(out.result.states.size(), 1u);
  EXPECT_EQ(out.result.states[0].name, "inner.kv");
  EXPECT_EQ(out.result.states[0].dims, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(out.result.states[0].window, 7);
}

TEST(Trace, OverridesOfThePositionComeFirst) {
  const std::vector<Setting> overrides = {{"fault", 1}};
  Built out;
  EXPECT_ERROR_SAYS(build("", out, overrides), ExitCode::plugin, "no luck");
}

TEST(Trace, RefusalHasOpPlaceBlockPluginAndConfig) {
  try {
    build("fault = 12\n");
    FAIL() << "no error";
  } catch (const PluginError& error) {
    const ErrorText& text = error.text();
    EXPECT_EQ(text.where, "add");
    EXPECT_EQ(text.what, "[2, 3, 8] and [9] do not broadcast: dim 2 is 8 and 9");
    ASSERT_EQ(text.notes.size(), 3u) << error.what();
    EXPECT_TRUE(text.notes[0].starts_with("inner, built at plugins/tiny/model.c:")) << error.what();
    EXPECT_EQ(
        text.notes[1],
        "block 'layer' of family 'tiny', layer 0, phase train; plugin 'org.example.tiny' 1.0");
    EXPECT_EQ(text.notes[2], "keys with these numbers: hidden_size = 8 (run.toml:3)");
  }
}

TEST(Trace, RefusalComparesItsNumbersWithTheValuesOfThePosition) {
  const auto last_note = [](std::int64_t hidden_size) {
    const std::vector<Setting> overrides = {{"hidden_size", hidden_size}};
    try {
      Built out;
      build("fault = 12\n", out, overrides);
    } catch (const PluginError& error) {
      return error.text().notes.back();
    }
    return std::string("no error");
  };
  EXPECT_EQ(last_note(8), "keys with these numbers: hidden_size = 8 (this position of the plan)");
  EXPECT_TRUE(last_note(16).starts_with("block 'layer' of family 'tiny'")) << last_note(16);
}

struct NumberedFault {
  int number;
  const char* says;
};

TEST(Trace, RefusesAbiViolationsWithAMessage) {
  static constexpr NumberedFault kFaults[] = {
      {1, "block 'layer': no luck\n"},
      {2, "block 'layer': op number 999 is unknown to this host"},
      {4, "block 'layer': op 'rms_norm' has no attribute 9; it has 2 attributes"},
      {5, "block 'layer': attribute 'eps' of op 'rms_norm' must be a number, got a string"},
      {6, "block 'layer': op number 1014 is unknown to this host"},
      {7,
       "block 'layer': parameter 'inner.weight' is declared as [9], but was declared before as "
       "[8]"},
      {49,
       "block 'layer': parameter 'inner.weight' is declared twice, with another role, list of "
       "axes, initialiser, element type, set of flags, group; use the first tensor, or give this"},
      {8, "block 'layer': its build failed with status 7 (state) and no message"},
      {9, "block 'layer': its build leaves carry_out[0] unset; it must be a tensor f32[2, 3, 8]"},
      {10, "block 'layer': input 'b' of op 'add' is the handle of a state; it must be a tensor"},
      {11, "block 'layer': input 'b' of op 'add' is a handle of another trace; a handle is valid"},
      {13, "block 'layer': its build leaves the scope 'inner' open; every scope must be closed"},
      {15, "block 'layer': state 'inner.kv' is declared twice; names must be unique"},
      {16, "attribute 1 of op 'rms_norm' requires a host with plugin ABI 0.40; this host has 0."},
      {17, "block 'layer': input 'w' of op 'linear' is missing; it must be a tensor"},
      {19, "block 'layer': reads the key 'undeclared', which the family does not declare"},
      {20, "lamina_emit_t sets byte 128, but this host knows "},
      {21, "block 'layer': op 'rms_norm' has no attribute 8; it has 2 attributes"},
      {23, "block 'layer': dim 0 of parameter 'inner.hostile' must be at least 1, got -4"},
      {25, "the init of parameter 'inner.hostile' has the numbers inf and 0, which must be finite"},
      {26, "block 'layer': parameter 'inner.hostile' has 2 dims but 1 axes; every dim needs one"},
      {28, "the init of parameter 'inner.hostile' counts modulo 0; it must be at least 1"},
      {29, "state 'inner.sparse' has stride -2; it must not be negative"},
      {27, "block 'layer': the inputs of op 'add': 4000000000 elements at a null pointer"},
      {30, "attribute 'start' of op 'slice' is 9223372036854775804; it must be between -2^45 and"},
      {31, "slice: 8 elements from 17592186044416 on exceed dim 2 of f32[2, 3, 8]"},
      {32, "constant: shape has the dim -2, which must not be negative"},
      {33, "reshape: shape has the dim -2, which must not be negative"},
      {34, " would have 9 dims; the maximum is 8"},
      {35, "block 'layer': it uses more than 262144 ops"},
      {37, "the weight of 'loss' is the key 'act', which is a string; expected a number"},
      {38, "the rate of 'inner.weight' is the key 'act', which is a string; expected a number"},
      {46, "block 'layer': reads the key 'logit_scale', which the family does not declare"},
      {47, "the weight of 'loss' is the key 'logit_scale', which the family does not declare"},
      {48,
       "the rate of 'inner.weight' is the key 'logit_scale', which the family does not declare"},
      {39, "a tag is a string with a control character, byte 0x1b"},
      {40, "the message of block 'layer' is a string with a control character, byte 0x1b"},
      {42, "block 'layer': lamina_param_t has padding that is not zero (0x5); clear the struct"},
      {43, "attribute 'eps' of op 'rms_norm' has padding that is not zero (0x5)"},
      {44, "rms_norm: eps must be greater than 0, got 0"},
      {45,
       "parameter 'engram.weight' begins with 'engram.', the prefix of parameters that the host"},
      {22, "block 'layer': carry_out[0] must be f32[2, 3, 8] like the incoming carry, got f32"},
  };
  for (const NumberedFault& fault : kFaults) {
    SCOPED_TRACE(fault.number);
    EXPECT_ERROR_SAYS(build(fmt::format("fault = {}\n", fault.number)), ExitCode::plugin,
                      fault.says);
  }
}

TEST(Trace, AChangeOfTheProcessIsRefusedAndPutBack) {
  static constexpr NumberedFault kFaults[] = {
      {80, "block 'layer': its build changes the working directory from '"},
      {80, "' to '/' (C-10 of docs/plugin_requirements.md)"},
      {81, "its build changes the locale from 'C' to 'C.UTF-8' (C-10 of"},
      {82, "its build changes the environment variable 'TINY_WAS_HERE' (C-10 of"},
      {83, "its build changes the environment variable 'PATH' (C-10 of"},
      {84, "its build changes the handling of the signal SIGWINCH (C-10 of"},
      {85, "its build changes which signals are blocked (C-10 of"},
#ifdef __x86_64__
      {86, "its build changes how the processor rounds floating-point numbers (C-10 of"},
      {87, "its build changes how the processor rounds floating-point numbers (C-10 of"},
#endif
      {88, "its build changes the locale of the thread (C-10 of"},
      {80, "these belong to the program, which has restored them; the plugin must not change them"},
  };
  const ProcessGuard before;
  for (const NumberedFault& fault : kFaults) {
    SCOPED_TRACE(fault.number);
    EXPECT_ERROR_SAYS(build(fmt::format("fault = {}\n", fault.number)), ExitCode::plugin,
                      fault.says);
    EXPECT_EQ(before.restore(), "");
  }
}

TEST(Trace, UnusedAdditionsOfANewerAbiAreIgnored) { build("fault = 56\n"); }

TEST(Trace, AParameterMayBeDeclaredAgain) { build("fault = 59\n"); }

// Tags and axes affect only the treatment of a value, not its meaning.
TEST(Trace, UnknownTagsAndAxesAreWarnings) {
  ::testing::internal::CaptureStderr();
  build("fault = 14\n");
  build("fault = 57\n");
  build("fault = 57\n");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 2) << said;
  EXPECT_NE(
      said.find("plugin 'org.example.tiny' 1.0, block 'layer': unknown tag 'query_prj': no "
                "rematerialisation policy uses it; did you mean 'query_proj'? Otherwise begin a "
                "private name with 'org.example.tiny.'"),
      said.npos)
      << said;
  EXPECT_NE(
      said.find("unknown axis 'act_embedd': nothing is split along it; did you mean 'act_embed'?"),
      said.npos)
      << said;
}

TEST(Trace, RefusalOfAConfigValueIsTheUsersFault) {
  EXPECT_ERROR_SAYS(build("fault = 18\n"), ExitCode::usage, "run.toml: 'act' cannot be tanh");
  EXPECT_ERROR_SAYS(build("fault = 24\n"), ExitCode::usage,
                    "run.toml: parameter 'inner.hostile' has dims [4611686018427387903, "
                    "4611686018427387903]; the maximum is 2^45 elements");
  EXPECT_ERROR_SAYS(
      build("fault = 36\n"), ExitCode::usage,
      "run.toml: the result of op 'pad' has dims [2, 3, 35184372088840]; the maximum is");
}

TEST(Trace, RefusesAHandleOfAnotherTraceOrAnEarlierBlock) {
  build("");  // the plugin keeps a handle of it
  EXPECT_ERROR_SAYS(build("fault = 3\n"), ExitCode::plugin,
                    "input 'b' of op 'add' is a handle of another trace");
  Graph graph;
  RecordingTrace trace(graph);
  build_block(tiny(), tiny().block(1), configured(tiny()), trace, {.carries = {carry(graph)}});
  EXPECT_ERROR_SAYS(build_block(tiny(), tiny().block(1), configured(tiny(), "fault = 3\n"), trace,
                                {.carries = {carry(graph)}}),
                    ExitCode::plugin, "input 'b' of op 'add' is a handle of an earlier block");
}

TEST(Trace, RefusesABuildThatIsOver) {
  build("");  // the plugin keeps its lamina_build_t
  EXPECT_ERROR_SAYS(
      build("fault = 41\n"), ExitCode::plugin,
      "block 'layer': its build uses a tensor, state or lamina_build_t of a build that "
      "has ended; each is valid until");
}

TEST(Trace, OneTraceBuildsSeveralBlocks) {
  Graph graph;
  RecordingTrace trace(graph);
  const ModelConfig config = configured(tiny());
  const BlockResult first =
      build_block(tiny(), tiny().block(1), config, trace, {.carries = {carry(graph)}});
  const BlockResult second =
      build_block(tiny(), tiny().block(1), config, trace, {.carries = first.carries});
  EXPECT_EQ(first.params, second.params);
  EXPECT_EQ(graph.nodes().size(), 2u);
}

TEST(Trace, ExceptionThatLeavesThePluginIsNamed) {
  const Family& family = load_family(Catalog::scan({.files = {zoo("throwing")}}), "throwing");
  Graph graph;
  RecordingTrace trace(graph);
  EXPECT_ERROR_SAYS(
      build_block(family, family.block(1), configured(family), trace, {.carries = {carry(graph)}}),
      ExitCode::plugin,
      "block 'layer': its build threw an exception (oops); exceptions must not leave a plugin");
}

// Builds the block of a plugin whose SDK is newer than this host.
std::vector<std::string> build_of_newer_sdk(int fault) {
  const Family& family = load_family(Catalog::scan({.files = {zoo("newer_sdk")}}), "newer_sdk");
  const std::string more =
      fmt::format("num_attention_heads = 2\nintermediate_size = 8\nfault = {}\n", fault);
  Graph graph;
  RecordingTrace trace(graph);
  build_block(family, family.block(1), configured(family, more), trace,
              {.carries = {carry(graph)}});
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes()) ops.push_back(node.op->name);
  return ops;
}

TEST(Trace, NewerSdkAsksForNothingYoungerThanItsTarget) {
  EXPECT_EQ(build_of_newer_sdk(0), std::vector<std::string>{"soft_cap"});
}

TEST(Trace, NewerSdkNamesCallsThatItsTargetLacks) {
  EXPECT_ERROR_SAYS(
      build_of_newer_sdk(1), ExitCode::plugin,
      fmt::format("attribute 2 of op 'soft_cap' needs plugin ABI {0}.99, but this plugin "
                  "supports hosts from {0}.{1}",
                  LAMINA_ABI_MAJOR, LAMINA_ABI_CANDIDATE));
  EXPECT_ERROR_SAYS(build_of_newer_sdk(2), ExitCode::plugin,
                    "input 2 of op 'soft_cap' needs plugin ABI");
  EXPECT_ERROR_SAYS(build_of_newer_sdk(3), ExitCode::plugin, "op 'later' needs plugin ABI");
}

TEST(Trace, DraftOpsAreForHostsOfOneMinor) {
  Built out;
  EXPECT_ERROR_SAYS(build("fault = 58", out), ExitCode::plugin,
                    tiny().plugin().of_this_minor
                        ? "block 'layer': input 'weights' of op 'index_scores' is missing"
                        : "block 'layer': op 'index_scores' is a draft, which may change with");
}

TEST(MemoryFaults, ABlockWithoutMemoryIsNoFaultOfThePlugin) {
  const Family& family = load_family(Catalog::scan({.files = {zoo("throwing")}}), "throwing");
  Graph graph;
  RecordingTrace trace(graph);
  EXPECT_THROW(
      build_block(family, family.block(2), configured(family), trace, {.carries = {carry(graph)}}),
      std::bad_alloc);
}

// An error in the host's code during a call passes through unchanged.
class FailingTrace : public RecordingTrace {
 public:
  using RecordingTrace::RecordingTrace;

 protected:
  Tensor make_param(const ParamDesc&) override { throw InternalError({"here", "ours", {}}); }
};

TEST(Trace, ErrorOfTheHostStaysTheHosts) {
  Graph graph;
  FailingTrace trace(graph);
  EXPECT_THROW(
      build_block(tiny(), tiny().block(1), configured(tiny()), trace, {.carries = {carry(graph)}}),
      InternalError);
}

TEST(Trace, FieldsOfANewerPluginAreZeroInAnAnswer) {
  struct {
    lamina_type_t known;
    std::uint64_t newer[2];
  } out{{}, {7, 7}};
  lamina_type_t answer{};
  answer.dtype = LAMINA_DTYPE_I64;
  out.known.size = sizeof(lamina_type_t) + 8;
  abi::write(answer, &out.known, "a type");
  EXPECT_EQ(out.known.dtype, answer.dtype);
  EXPECT_EQ(out.known.size, sizeof(lamina_type_t) + 8);
  EXPECT_EQ(out.newer[0], 0u);
  EXPECT_EQ(out.newer[1], 7u) << "beyond its size";
  out.known.size = 1 << 20;
  EXPECT_THROW(abi::write(answer, &out.known, "a type"), abi::ContractError);
  EXPECT_EQ(out.newer[1], 7u);
}

}  // namespace
}  // namespace lamina::registry
