// The list of subcommands, as host/cli/CMakeLists.txt collects it.
#include "cli/shell/commands.h"

namespace lamina::cli {

#define LAMINA_COMMAND(function) Command function();
#include "command_list.inc"
#undef LAMINA_COMMAND

const std::vector<Command>& all_commands() {
  static const std::vector<Command> commands = {
#define LAMINA_COMMAND(function) function(),
#include "command_list.inc"
#undef LAMINA_COMMAND
  };
  return commands;
}

}  // namespace lamina::cli
