// The list of subcommands.
#include "cli/commands.h"

namespace lamina::cli {

const std::vector<Command>& all_commands() {
  static const std::vector<Command> commands = {
      config_show_command(),
      config_explain_command(),
      completion_command(),
  };
  return commands;
}

}  // namespace lamina::cli
