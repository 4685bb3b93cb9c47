#include "model/adapter.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "core/error.h"
#include "core/log.h"
#include "core/suggest.h"
#include "io/weight_files.h"
#include "lamina/names.h"
#include "model/adapter_matrices.h"
#include "publishers/formats.h"
#include "weights/match/tensor_map.h"
#include "weights/publish/peft_names.h"

namespace lamina::model {
namespace {

using weights::kAllLinear;

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// Returns adapters of the rows of a matrix that files store fused under the name `target`
// ("qkv_proj").
std::vector<decoder::AdapterTarget> parts_called(const decoder::Model& base,
                                                 const std::vector<AdapterMatrix>& matrices,
                                                 const std::string& target) {
  const weights::TensorMap map = weights::published_tensors(base, weights::Layout::fused);
  std::vector<decoder::AdapterTarget> out;
  for (const weights::PublishedTensor& tensor : map.tensors()) {
    if (!weights::is_called(decoder::module_name(tensor.name), target)) continue;
    const std::vector<weights::Piece> pieces = pieces_in_order(map, tensor);
    const auto& first = base.parameters()[pieces.front().parameter];
    for (const weights::Piece& piece : pieces) {
      const decoder::Parameter& p = base.parameters()[piece.parameter];
      if (pieces.size() < 2 || !find_matrix(matrices, p)) continue;
      out.push_back({p.block, p.desc.name, first.desc.name});
    }
  }
  return out;
}

// Returns the first module of the model that `target` names, by the name in files; "" if there is
// none.
std::string module_called(const decoder::Model& base, const std::string& target) {
  const weights::TensorMap map = weights::published_tensors(base);
  for (const weights::PublishedTensor& tensor : map.tensors()) {
    const std::string module = decoder::module_name(tensor.name);
    if (weights::is_called(module, target)) return module;
    for (const int piece : tensor.pieces) {
      const int parameter = map.pieces()[static_cast<std::size_t>(piece)].parameter;
      const std::string& ours = base.parameters()[parameter].name;
      if (weights::is_called(decoder::module_name(ours), target)) return module;
    }
  }
  return {};
}

}  // namespace

decoder::Adapter adapter_of(const decoder::Model& base, const weights::PeftConfig& config,
                            const std::string& where) {
  const std::vector<AdapterMatrix> matrices = adapter_matrices(base);
  decoder::Adapter out{
      .rank = config.rank, .scale = config.scale(), .dropout = config.dropout, .dora = config.dora};
  const auto add = [&](const decoder::AdapterTarget& target) {
    const decoder::AdapterTarget* known = out.find(target.block, target.name);
    if (!known) return out.targets.push_back(target);
    if (*known != target)
      throw UserError(ExitCode::usage,
                      {where,
                       fmt::format("'{}' would have an adapter itself and as a part of another "
                                   "matrix",
                                   target.name),
                       {"give either the whole or its parts"}});
  };
  const auto refuse = [&](const std::string& target, const AdapterMatrix& m) {
    const std::string what =
        fmt::format("'{}' is '{}', a part of '{}'", target, m.name, m.published);
    if (m.fits)
      throw UserError(
          ExitCode::usage,
          {where, what, {fmt::format("name the whole module: '{}'", last_part(m.module))}});
    throw UserError(ExitCode::usage,
                    {where,
                     what,
                     {"adapters are supported for modules of linear layers, for all outputs of a "
                      "module, and for experts that are published one by one"}});
  };
  if (config.target_modules.empty())
    throw UserError(
        ExitCode::usage,
        {where,
         "is empty, so no matrix would have an adapter",
         {fmt::format("name matrices, eg [\"q_proj\", \"v_proj\"], or give \"{}\"", kAllLinear)}});
  for (const std::string& target : config.target_modules) {
    bool any = false;
    const AdapterMatrix* stack = nullptr;  // experts in one tensor, which are not modules
    const bool all = target == kAllLinear;
    out.all = out.all || all;
    for (const AdapterMatrix& m : matrices) {
      const bool is_module = weights::is_called(m.module, target);
      if (!all && !is_module && !weights::is_called(m.ours, target)) continue;
      if (!m.fits && all) continue;
      if (m.is_stack && !m.fits) {
        stack = &m;
        continue;
      }
      if (!m.fits || (m.is_part && !all && !is_module)) refuse(target, m);
      add(m.target());
      any = true;
    }
    if (any) continue;
    if (stack) refuse(target, *stack);
    for (const decoder::AdapterTarget& part : parts_called(base, matrices, target)) {
      add(part);
      any = true;
    }
    if (any) continue;
    std::vector<std::string> names;
    for (const AdapterMatrix& m : matrices)
      if (m.fits) {
        names.push_back(last_part(m.module));
        if (!m.is_part) names.push_back(m.ours);
      }
    std::vector<std::string> notes;
    if (const std::string module = module_called(base, target); !module.empty()) {
      notes.emplace_back(
          "adapters of routers, norms, convolutions, tables and heads are not supported");
      if (!names.empty())
        notes.push_back(fmt::format("expected a name such as '{}'", names.front()));
      throw UserError(
          ExitCode::usage,
          {where, fmt::format("'{}' is '{}', which cannot have an adapter", target, module),
           std::move(notes)});
    }
    if (const std::string near = nearest_name(target, names); !near.empty())
      notes.push_back(fmt::format("did you mean '{}'?", near));
    else if (!names.empty())
      notes.push_back(fmt::format("expected a name such as '{}'", names.front()));
    throw UserError(
        ExitCode::usage,
        {where, fmt::format("no matrix of the layers is named '{}'", target), std::move(notes)});
  }
  return out;
}

namespace {

const char* const kMergeIt = "merge it into its model with PEFT, and use the merged model";

std::string config_in(const std::string& directory) {
  return fmt::format("{}/{}", directory, publishers::kAdapterConfig);
}
std::string weights_in(const std::string& directory) {
  return fmt::format("{}/{}.safetensors", directory, publishers::kAdapterStem);
}

// The modules of a model by every name that files may use.
class ModuleTable {
 public:
  explicit ModuleTable(const decoder::Model& base) : base_(base) {
    for (const weights::Layout layout : {weights::Layout::published, weights::Layout::fused}) {
      maps_.push_back(weights::published_tensors(base, layout));
      for (const weights::PublishedTensor& tensor : maps_.back().tensors())
        for (const std::string& name :
             weights::spellings(tensor.name, base.family().tensor_prefixes()))
          places_.try_emplace(decoder::module_name(name), Place{maps_.size() - 1, &tensor});
    }
  }
  ModuleTable(const ModuleTable&) = delete;
  ModuleTable& operator=(const ModuleTable&) = delete;

  // Returns the tensor of the family's map; null if the model has no such module.
  const weights::PublishedTensor* find(const std::string& module) const {
    const auto found = places_.find(module);
    return found == places_.end() ? nullptr : found->second.tensor;
  }
  // Returns its pieces in the order in the file.
  std::vector<weights::Piece> pieces_of(const std::string& module) const {
    const Place& place = places_.at(module);
    return pieces_in_order(maps_[place.map], *place.tensor);
  }
  // The map of files without fused tensors.
  const weights::TensorMap& published() const { return maps_.front(); }

 private:
  struct Place {
    std::size_t map;
    const weights::PublishedTensor* tensor;
  };
  const decoder::Model& base_;
  std::deque<weights::TensorMap> maps_;
  std::unordered_map<std::string, Place> places_;
};

// Finds the matrices for the tensors of an adapter file.
class SavedAdapter {
 public:
  SavedAdapter(const decoder::Model& base, const std::string& directory)
      : base_(base),
        directory_(directory),
        config_path_(config_in(directory)),
        path_(weights_in(directory)),
        config_(weights::read_peft_config(directory)),
        targets_(config_, config_path_),
        matrices_(adapter_matrices(base)),
        table_(base) {}

  decoder::Adapter read() {
    out_ = {.rank = config_.rank,
            .scale = config_.scale(),
            .dropout = config_.dropout,
            .dora = config_.dora};
    std::set<std::string> modules;
    const io::WeightFiles files(directory_, publishers::kAdapterStem);
    for (std::string_view name : files.names()) {
      const std::string module = weights::module_of_adapter_tensor(name);
      if (module.empty())
        refuse(path_, fmt::format("tensor '{}' is not part of an adapter of a matrix", name));
      if (modules.insert(module).second) add(module);
    }
    for (const std::string& module : modules)
      if (table_.find(module)) check_parts(files, module);
    if (out_.targets.empty()) refuse(path_, "contains no adapter of a matrix of the layers");
    check_outside();
    check_whole();
    check_lacking();
    return std::move(out_);
  }

 private:
  [[noreturn]] static void refuse(const std::string& where, std::string what,
                                  const char* note = kMergeIt) {
    throw UserError(ExitCode::checkpoint, {where, std::move(what), {note}});
  }

  [[noreturn]] void refuse_kind(const std::string& module) const {
    refuse(path_, fmt::format("has an adapter of '{}'; lamina supports adapters of whole matrices "
                              "of the layers",
                              module));
  }

  // Also for the head of a model that has no tensor for it, because it is the token table.
  bool is_head(const std::string& module) const {
    return std::ranges::any_of(base_.family().tensor_rows(), [&](const registry::TensorRow& row) {
      return !row.ignore && row.block == 0 && row.param == LAMINA_NAME_HEAD &&
             weights::is_called(module, decoder::module_name(row.published));
    });
  }

  void add(const std::string& module) {
    const weights::PublishedTensor* tensor = table_.find(module);
    if (!tensor && !is_head(module)) return outside_.push_back(module);
    if (!targets_.contains(module))
      refuse(path_,
             fmt::format("has an adapter of '{}', which target_modules of {} does not list", module,
                         publishers::kAdapterConfig),
             "PEFT does not use it: correct one of the two files");
    if (!tensor) refuse_kind(module);
    const std::vector<weights::Piece> pieces = table_.pieces_of(module);
    const std::string& first = base_.parameters()[pieces.front().parameter].desc.name;
    for (const weights::Piece& piece : pieces) {
      const decoder::Parameter& p = base_.parameters()[piece.parameter];
      if (!find_matrix(matrices_, p)) refuse_kind(module);
      const decoder::AdapterTarget target{p.block, p.desc.name, pieces.size() > 1 ? first : ""};
      const decoder::AdapterTarget* known = out_.find(p.block, p.desc.name);
      if (known && *known != target)
        refuse(path_, fmt::format("has an adapter of '{}', and another one of a part of "
                                  "it",
                                  module));
      if (!known) out_.targets.push_back(target);
      there_[{p.block, p.desc.name}].emplace(piece.parameter, piece.first);
    }
    const std::string own = decoder::module_name(tensor->name);
    if (prefix_.empty() && module != own && module.ends_with(own))
      prefix_ = module.substr(0, module.size() - own.size());
    inside_.push_back(module + ".weight");
  }

  void check_parts(const io::WeightFiles& files, const std::string& module) const {
    for (const std::string_view part :
         {publishers::kAdapterDown, publishers::kAdapterUp, publishers::kAdapterMagnitude}) {
      const std::string name = fmt::format("{}{}{}", publishers::kAdapterPrefix, module, part);
      if (part == publishers::kAdapterMagnitude && !config_.dora) {
        if (files.contains(name))
          refuse(path_,
                 fmt::format("has the tensor '{}' of DoRA, but use_dora of {} is not true", name,
                             publishers::kAdapterConfig),
                 "PEFT does not use it: correct one of the two files");
        continue;
      }
      if (!files.contains(name))
        refuse(path_,
               fmt::format("tensor '{}' is missing; other tensors of this matrix exist", name),
               "copy the adapter again: a part of it is missing");
    }
  }

  // A multimodal model may contain encoders, which are not computed here.
  void check_outside() const {
    if (outside_.empty()) return;
    const std::vector<std::string_view> inside(inside_.begin(), inside_.end());
    const auto folders = weights::layer_folders(base_, inside);
    for (const std::string& module : outside_)
      if (!base_.config().in_wrapper() || !folders || folders->theirs.empty() ||
          module.starts_with(folders->theirs))
        refuse(path_, fmt::format("has an adapter of '{}', but the model has no such "
                                  "module",
                                  module));
    log::info("{}: adapters of {} modules outside the language model are not used, eg '{}'", path_,
              outside_.size(), outside_.front());
  }

  void check_whole() const {
    for (const auto& [matrix, there] : there_) {
      std::int64_t all = 0;
      std::string lacking;
      for (std::size_t i = 0; i < base_.parameters().all().size(); ++i) {
        const decoder::Parameter& p = base_.parameters().all()[i];
        if (p.block != matrix.first || p.desc.name != matrix.second) continue;
        for (const weights::Piece& piece : table_.published().pieces_of(static_cast<int>(i))) {
          ++all;
          if (lacking.empty() && !there.contains({static_cast<int>(i), piece.first}))
            lacking = decoder::module_name(table_.published().tensor_of(piece).name);
        }
      }
      if (!lacking.empty())
        refuse(path_, fmt::format("has adapters for {} of {} modules like '{}'; lamina requires "
                                  "them in all layers and experts or in none",
                                  there.size(), all, lacking));
    }
  }

  // A matrix listed in target_modules without tensors means that the file is incomplete. PEFT has
  // none for experts that are stored as one tensor, and chooses the matrices of "all-linear"
  // itself.
  void check_lacking() const {
    if (config_.target_modules == std::vector{std::string(kAllLinear)}) return;
    for (const weights::PublishedTensor& tensor : table_.published().tensors()) {
      const weights::Piece& piece =
          table_.published().pieces()[static_cast<std::size_t>(tensor.pieces.front())];
      const decoder::Parameter& p = base_.parameters()[piece.parameter];
      const AdapterMatrix* matrix = find_matrix(matrices_, p);
      const std::string module = prefix_ + decoder::module_name(tensor.name);
      if (!matrix || matrix->is_stack || out_.find(p.block, p.desc.name) ||
          p.layer >= base_.config().num_layers() || !targets_.contains(module))
        continue;
      refuse(path_,
             fmt::format("has no adapter of '{}', which target_modules of {} lists", module,
                         publishers::kAdapterConfig),
             "copy the adapter again: a part of it is missing");
    }
  }

  const decoder::Model& base_;
  std::string directory_, config_path_, path_;
  weights::PeftConfig config_;
  weights::TargetModules targets_;
  std::vector<AdapterMatrix> matrices_;
  ModuleTable table_;
  decoder::Adapter out_;
  std::vector<std::string> inside_;   // matrices of the model that have an adapter
  std::vector<std::string> outside_;  // modules that the model does not have
  std::string prefix_;                // prefix in the file before the names of the family's map
  // By matrix: parameters and offsets of those that have an adapter.
  std::map<std::pair<std::uint32_t, std::string>, std::set<std::pair<int, std::int64_t>>> there_;
};

}  // namespace

decoder::Adapter adapter_of(const decoder::Model& base, const std::string& directory) {
  return SavedAdapter(base, directory).read();
}

std::unique_ptr<decoder::Model> make_with_adapter(const decoder::Model& base,
                                                  const std::string& directory,
                                                  const MakeAdapted& make) {
  const decoder::Adapter adapter = adapter_of(base, directory);
  try {
    return make(adapter);
  } catch (const UserError& error) {
    const ErrorText& text = error.text();
    if (!text.where.starts_with("lora.")) throw;
    // Keys of [lora] are not the user's here: names the adapter, and the module in place of ours.
    for (const AdapterMatrix& m : adapter_matrices(base))
      if (adapter.find(m.block, m.name) &&
          text.what.find(fmt::format("'{}'", m.name)) != text.what.npos)
        throw UserError(ExitCode::checkpoint,
                        {weights_in(directory),
                         fmt::format("has an adapter of '{}': {}", last_part(m.module), text.what),
                         {kMergeIt}});
    throw UserError(ExitCode::checkpoint, {weights_in(directory), text.what, {kMergeIt}});
  }
}

}  // namespace lamina::model
