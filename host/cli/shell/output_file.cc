#include "cli/shell/output_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "core/error.h"
#include "core/printable.h"
#include "io/directories.h"
#include "train/loop/file_owner.h"

namespace lamina::cli {
namespace {

[[noreturn]] void refuse_output(const std::string& path, std::string what) {
  throw UserError(ExitCode::usage,
                  {path, std::move(what), {"name a file outside of that directory"}});
}

// Returns whether both are one existing file, or the file is directly in the directory `input`.
bool is_read(const std::filesystem::path& path, const std::filesystem::path& input) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return false;
  const bool is_directory = std::filesystem::is_directory(input, error);
  return std::filesystem::equivalent(
      is_directory ? std::filesystem::path(io::parent_directory(path.string())) : path, input,
      error);
}

io::Destination check_output(const std::string& path, bool own_kind) {
  io::Destination out = io::destination_of(path);
  if (out.in_place) return out;
  const std::optional<train::FileOwner> owner = train::file_owner(out.path);
  if (!owner) return out;
  std::error_code error;
  const bool exists = std::filesystem::exists(out.path, error);
  if (exists && (owner->is_closed || !own_kind))
    refuse_output(path, fmt::format("belongs to {}, '{}', and is not overwritten", owner->kind,
                                    owner->directory));
  if (!exists && owner->is_closed) refuse_output(path, train::inside_in_words(*owner));
  return out;
}

}  // namespace

io::Destination check_output_file(const std::string& path, const std::vector<std::string>& inputs) {
  io::Destination out = check_output(path, false);
  if (!out.in_place)
    for (const std::string& input : inputs)
      if (is_read(out.path, input))
        throw UserError(ExitCode::usage,
                        {path,
                         fmt::format("is read by this command ({}), so it is not overwritten",
                                     printable(input)),
                         {"choose another name"}});
  return out;
}

io::Destination check_output_file(const std::string& path, const std::vector<std::string>& inputs,
                                  const OwnKind& kind) {
  io::Destination out = check_output_file(path, inputs);
  std::error_code error;
  // Empty files are made by mktemp.
  if (!out.in_place && std::filesystem::exists(out.path, error) &&
      !std::filesystem::is_empty(out.path, error) && !kind.is_of(out.path))
    throw UserError(
        ExitCode::usage,
        {path,
         fmt::format("exists and is not {}; only such a file is overwritten", kind.name),
         {"choose another name, or remove the file"}});
  return out;
}

io::Destination check_own_output_file(const std::string& path) { return check_output(path, true); }

std::vector<std::string> given_files(const Arguments& a,
                                     const std::vector<std::string_view>& options) {
  std::vector<std::string> out;
  for (const std::string_view option : options)
    for (std::string& file : a.texts(option)) out.push_back(std::move(file));
  return out;
}

}  // namespace lamina::cli
