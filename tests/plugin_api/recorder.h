// A host that only records a plugin's calls: it knows the shapes of the few ops in decoder blocks,
// and nothing else.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "lamina/abi.h"
#include "lamina/names.h"

namespace lamina::testing {

using Value =
    std::variant<std::monostate, std::int64_t, double, bool, std::string, std::vector<std::int64_t>,
                 std::vector<double>, std::vector<std::string>>;

Value copy_value(const lamina_value_t& value);
inline std::string copy(lamina_str_t text) { return std::string(text.ptr, text.len); }

struct Emission {
  std::uint32_t op = 0;
  std::uint32_t revision = 0;
  std::vector<lamina_tensor_t> inputs;
  std::map<std::uint32_t, Value> attrs;
  lamina_state_t state = 0;
  std::uint32_t outputs = 0;
  std::string scope;
  std::string file;
  std::uint32_t line = 0;
};

struct Parameter {
  std::string name;
  std::vector<std::int64_t> dims;
  std::vector<std::string> axes;
  std::uint32_t role = 0;
  std::uint32_t init = 0;
  double init_a = 0;
};

struct DecodeState {
  std::string name;
  std::uint32_t kind = 0;
  std::vector<std::int64_t> dims;
  std::int64_t window = 0;
};

// One trace. The block's input is tensor 1, of shape [-1, -2, width].
class RecordingBuild : public lamina_build {
 public:
  explicit RecordingBuild(std::int64_t width);

  lamina_tensor_t add_tensor(std::vector<std::int64_t> shape);

  std::vector<Emission> emissions;
  std::vector<Parameter> params;
  std::vector<DecodeState> states;
  std::vector<std::string> tags;
  std::vector<std::uint32_t> inputs;              // requested LAMINA_INPUT_*
  std::vector<std::vector<std::int64_t>> shapes;  // of tensor i at i - 1
  std::vector<std::string> scopes;
  lamina_status_t failure = LAMINA_OK;
  std::string message;
  std::string failed_file;
  bool refuse_emissions = false;
};

// Values of config keys.
class RecordingConfig : public lamina_config {
 public:
  RecordingConfig();
  std::map<std::string, Value> values;  // monostate: declared, without a value
};

struct RecordedPosition {
  std::uint32_t block = 0;
  std::map<std::string, Value> overrides;
  friend bool operator==(const RecordedPosition&, const RecordedPosition&) = default;
};
struct RecordedSegment {
  std::string name;
  std::vector<RecordedPosition> unit;
  std::uint32_t times = 0;
  friend bool operator==(const RecordedSegment&, const RecordedSegment&) = default;
};

// The reply of a family.
class RecordingReply : public lamina_reply {
 public:
  RecordingReply();
  std::map<std::string, Value> derived;
  std::vector<std::pair<std::string, std::string>> problems;
  std::vector<RecordedSegment> segments;
  lamina_embed_t embed{};
  lamina_head_t head{};
  lamina_norm_t norm{};
  std::map<std::uint32_t, Value> norm_attrs;
  lamina_status_t failure = LAMINA_OK;
  std::string message;
};

// For init(); it ignores auxiliary values and exports, and has no other interface.
const lamina_host_t& recording_host();

// Returns a config with the defaults of a family, `values` on top of them, and its derived values.
RecordingConfig configure(const lamina_family_t& family, std::map<std::string, Value> values);

}  // namespace lamina::testing
