// The functions of the table in check.cc, by their file. Each returns if the plugin conforms, else
// throws Failure.
#pragma once

#include <filesystem>

namespace lamina::conformance {

class PluginSubject;
class FamilySubject;

// files.cc
void check_elf(const std::filesystem::path& file);
void check_loading(const std::filesystem::path& file);
void check_manifest(const std::filesystem::path& file);

// load.cc
void check_load_is_quiet(const PluginSubject& plugin);
void check_builds_are_quiet(const FamilySubject& family);
void check_init_nests(const PluginSubject& plugin);
void check_unknown_interfaces(const PluginSubject& plugin);

// abi.cc
void check_structs(const PluginSubject& plugin);
void check_short_host(const PluginSubject& plugin);
void check_long_host(const PluginSubject& plugin);
void check_short_tables(const FamilySubject& family);
void check_future_host(const FamilySubject& family);

// older_hosts.cc
void check_older_hosts(const PluginSubject& plugin);
void check_models_of_older_hosts(const FamilySubject& family);

// schema.cc
void check_keys(const FamilySubject& family);
void check_odd_configs(const FamilySubject& family);
void check_config_json(const FamilySubject& family);

// key_effects.cc
void check_key_effects(const FamilySubject& family);

// plan.cc
void check_plans(const FamilySubject& family);
void check_blocks_are_used(const FamilySubject& family);

// trace.cc
void check_purity(const FamilySubject& family);
void check_declarations(const FamilySubject& family);
void check_sizes_do_not_matter(const FamilySubject& family);
void check_tokens_apart(const FamilySubject& family);

// annotations.cc
void check_axes_and_tags(const FamilySubject& family);
void check_roles(const FamilySubject& family);
void check_states(const FamilySubject& family);

// numbers.cc
void check_gradients(const FamilySubject& family);
void check_dead_parameters(const FamilySubject& family);
void check_decoding(const FamilySubject& family);
void check_batches(const FamilySubject& family);
void check_scan(const FamilySubject& family);
void check_remat(const FamilySubject& family);
void check_microbatches(const FamilySubject& family);
void check_layer_losses(const FamilySubject& family);
void check_bfloat16(const FamilySubject& family);
void check_determinism(const FamilySubject& family);
void check_goldens(const FamilySubject& family);
void check_lookups(const FamilySubject& family);
void check_export(const FamilySubject& family);

// kernels.cc
void check_kernels(const FamilySubject& family);

// tensor_maps.cc
void check_tensor_map(const FamilySubject& family);

// errors.cc
void check_failing_calls(const FamilySubject& family);
void check_no_exceptions(const FamilySubject& family);
void check_lines(const FamilySubject& family);

// life.cc
void check_unloading(const PluginSubject& plugin);
void check_twins(const PluginSubject& plugin);
void check_threads(const FamilySubject& family);
void check_trace_time(const FamilySubject& family);

}  // namespace lamina::conformance
