// A model family as registered by a plugin, in our types. The functions call the plugin and convert
// its failures to errors that name it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/key.h"
#include "config/raw.h"
#include "config/value.h"
#include "registry/manifest.h"
#include "registry/model_config.h"
#include "registry/plan.h"

struct lamina_family;
struct lamina_block;

namespace lamina::registry {

struct PluginOp;
using CustomOps = std::vector<const PluginOp*>;  // live as long as the process

// The plugin of an object, for messages and records of runs.
struct PluginIdentity {
  std::string id;       // "org.example.llama"
  std::string version;  // "1.2.0"
  std::string path;
  std::string sdk;
  std::string toolchain;
  bool of_this_minor = true;  // built for the host's minor, which draft ops require
};

// A kind of layer. build_block() in registry/trace.h runs it.
struct Block {
  std::uint32_t id = 0;
  std::string name;
  const lamina_block* source = nullptr;  // lives as long as the process
};

// A step from a published tensor to ours, inverted for exports: LAMINA_TRANSFORM_* in order.
struct Transform {
  enum class Kind { transpose, add, mul, part, strided, squeeze, split, merge, move };
  Kind kind = Kind::transpose;
  double number = 0;       // of add, mul
  std::int64_t dim = 0;    // negative: counted from the last
  std::int64_t index = 0;  // of part, strided, move
  std::int64_t count = 0;  // of strided, merge
  friend bool operator==(const Transform&, const Transform&) = default;
};

// A row of the tensor map.
struct TensorRow {
  std::uint32_t block = 0;  // 0: outside the layers, `param` is a LAMINA_NAME_*
  std::string param;        // our full name in the block; empty if the tensor is ignored
  // {L} = global layer index, {P} = index of a prediction layer, {E} = index into our first dim,
  // * = anything (ignored rows only).
  std::string published;
  std::vector<Transform> transforms;
  bool optional = false;
  bool tied = false;
  bool ignore = false;
  bool beyond = false;   // ignored only in layers past the last
  bool surplus = false;  // ignored where the layer has no such parameter
};

class Family {
 public:
  // Copies and checks the declarations of a plugin. Throws PluginError with the violation. `source`
  // and everything it points to must live as long as the process. `ops`: the plugin's custom ops;
  // null: none.
  Family(const lamina_family& source, std::shared_ptr<const PluginIdentity> plugin,
         std::shared_ptr<const CustomOps> ops = nullptr);

  const FamilyNames& names() const { return names_; }
  const std::string& name() const { return names_.name; }
  // The family whose format exports use; empty = this one. See abi.h.
  const PluginIdentity& plugin() const { return *plugin_; }
  const std::vector<ModelKey>& keys() const { return *keys_; }
  const ModelKey* find_key(std::string_view name) const;
  // Returns null also for keys of the host, which are not for the plugin.
  const ModelKey* find_own_key(std::string_view name) const;
  const std::vector<Block>& blocks() const { return blocks_; }
  // REQUIRES: a block with that id; ids in plans are checked.
  const Block& block(std::uint32_t id) const;
  const CustomOps& custom_ops() const { return *custom_ops_; }
  const std::shared_ptr<const CustomOps>& shared_custom_ops() const { return custom_ops_; }
  const std::vector<TensorRow>& tensor_rows() const { return tensor_rows_; }
  const std::vector<std::string>& tensor_prefixes() const { return tensor_prefixes_; }

  // Returns final values of all keys: those in `raw` (keys "model.<name>"), defaults, then the
  // family's derived values; checked by the family. `where` replaces the file in messages about
  // missing keys. UserError (exit 2) for invalid values, PluginError if the plugin fails. [any
  // thread]
  ModelConfig configure(const config::Raw& raw, const std::string& where) const;

  // Returns the layers, embedding and head of the model. [any thread]
  PlanSpec plan(const ModelConfig& config) const;
  OptionsSpec options(const ModelConfig& config) const;

 private:
  [[noreturn]] void fail(std::string what, std::vector<std::string> notes = {}) const;

  FamilyNames names_;
  std::shared_ptr<const PluginIdentity> plugin_;       // shared by the families of a plugin
  std::shared_ptr<const std::vector<ModelKey>> keys_;  // shared with every ModelConfig
  std::vector<Block> blocks_;
  std::vector<TensorRow> tensor_rows_;
  std::vector<std::string> tensor_prefixes_;
  std::shared_ptr<const CustomOps> custom_ops_;  // shared by the families of a plugin
  const lamina_family* source_;
};

}  // namespace lamina::registry
