// The list of subcommands. To add one: a file cmd_<name>.cc with a function that returns its
// Command, its declaration here, and its line in commands.cc.
#pragma once

#include <vector>

#include "cli/shell/command.h"

namespace lamina::cli {

Command config_show_command();
Command config_explain_command();
Command config_import_command();
Command plugin_list_command();
Command plugin_inspect_command();
Command plugin_ops_command();
Command plugin_new_command();
Command plugin_check_command();
Command completion_command();
Command verify_command();
Command train_command();
Command decode_command();
Command chat_command();
Command template_command();
Command eval_command();
Command data_build_command();
Command data_show_command();
Command embed_command();
Command report_command();
Command tokenize_command();
Command ckpt_ls_command();
Command ckpt_verify_command();
Command ckpt_export_command();
Command ckpt_merge_command();
Command ckpt_diff_command();
Command ckpt_average_command();
Command explain_command();
Command plan_command();
Command bench_machine_command();
Command bench_compile_command();
Command bench_text_command();
Command bench_start_command();
Command bench_decode_command();
Command bench_prefill_command();
Command bench_train_command();

// In the order in which help lists them.
const std::vector<Command>& all_commands();

}  // namespace lamina::cli
