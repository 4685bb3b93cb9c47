// The list of subcommands.
#include "cli/shell/commands.h"

namespace lamina::cli {

const std::vector<Command>& all_commands() {
  static const std::vector<Command> commands = {
      train_command(),         decode_command(),         chat_command(),
      verify_command(),        eval_command(),           embed_command(),
      report_command(),        data_build_command(),     data_show_command(),
      ckpt_ls_command(),       ckpt_verify_command(),    ckpt_export_command(),
      ckpt_merge_command(),    ckpt_diff_command(),      ckpt_average_command(),
      explain_command(),       plan_command(),           bench_machine_command(),
      bench_compile_command(), bench_decode_command(),   bench_prefill_command(),
      bench_train_command(),   bench_text_command(),     bench_start_command(),
      config_show_command(),   config_explain_command(), config_import_command(),
      plugin_list_command(),   plugin_inspect_command(), plugin_ops_command(),
      plugin_new_command(),    plugin_check_command(),   template_command(),
      tokenize_command(),      completion_command(),
  };
  return commands;
}

}  // namespace lamina::cli
