// Finding plugins: the search order, unusable files, and the file of a family.
#include "registry/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lamina/abi.h"
#include "registry/manifest.h"
#include "registry/trust.h"
#include "registry/zoo.h"
#include "support/expect_error.h"

namespace lamina::registry {
namespace {

namespace fs = std::filesystem;

SearchPath only(const Folder& folder, std::vector<fs::path> files = {}) {
  return {.files = std::move(files), .folders = {folder.path()}};
}

TEST(SearchPath, TakesDataFolderThenInstallationByDefault) {
  const SearchPath path =
      search_path({}, {.data_home = "/data", .home = "/home/a", .executable = "/opt/bin/lamina"});
  EXPECT_EQ(path.folders,
            (std::vector<fs::path>{"/data/lamina/plugins", "/opt/lib/lamina/plugins"}));
  EXPECT_EQ(search_path({}, {.home = "/home/a"}).folders,
            std::vector<fs::path>{"/home/a/.local/share/lamina/plugins"});
}

TEST(SearchPath, VariableComesBeforeTheDefaultsAndNeverMeansTheCurrentFolder) {
  const SearchPath path = search_path(
      {}, {.plugin_path = "::/usr:plugins:/no/such/folder", .executable = "/opt/bin/l"});
  EXPECT_EQ(path.folders, (std::vector<fs::path>{"/usr", "/opt/lib/lamina/plugins"}));
  EXPECT_EQ(path.warnings,
            (std::vector<std::string>{
                "LAMINA_PLUGIN_PATH has an empty element, which is not the current folder; remove "
                "it, or write the path of the folder",
                "LAMINA_PLUGIN_PATH: 'plugins' is skipped; write it as an absolute path",
                "LAMINA_PLUGIN_PATH: '/no/such/folder' is not a folder; correct or remove it"}));
}

TEST(SearchPath, AFolderAboveALinkIsTheOneAboveItsTarget) {
  const Folder folder;
  folder.copy("tiny", "real/tiny.lamina.so");
  fs::create_directory(folder / "real/sub");
  fs::create_directory_symlink("real/sub", folder / "link");
  const fs::path above = folder / "link/..";
  for (const SearchPath& path :
       {search_path({}, {.plugin_path = above.string()}), search_path({}, {}, {above})}) {
    const Catalog catalog = Catalog::scan(path);
    ASSERT_EQ(catalog.plugins().size(), 1u);
    EXPECT_EQ(catalog.plugins()[0].path, folder / "real/tiny.lamina.so");
  }
}

TEST(SearchPath, IgnoresVariablesWhenPrivileged) {
  const SearchPath path = search_path({}, {.plugin_path = "/usr",
                                           .data_home = "/data",
                                           .home = "/home/a",
                                           .executable = "/opt/bin/lamina",
                                           .privileged = true});
  EXPECT_EQ(path.folders, std::vector<fs::path>{"/opt/lib/lamina/plugins"});
}

TEST(SearchPath, NamedFolderMustExist) {
  EXPECT_USER_ERROR(search_path({}, {}, {"/no/such/folder"}), ExitCode::usage,
                    "--plugin-path: '/no/such/folder' is not a folder\n"
                    "  give folders that contain *.lamina.so files");
  const Folder folder;
  fs::create_directory_symlink("loop", folder / "loop");
  EXPECT_ERROR_SAYS(search_path({}, {}, {folder / "loop"}), ExitCode::usage,
                    "loop' cannot be read: too many levels of symbolic links");
}

TEST(Catalog, Example) {
  const Folder folder;
  folder.copy("tiny", "tiny.lamina.so");
  const Catalog catalog = Catalog::scan(only(folder));
  const FamilyFile found = catalog.find("tiny_alias");
  EXPECT_EQ(found.family, "tiny");
  EXPECT_EQ(found.file->path, folder / "tiny.lamina.so");
  EXPECT_EQ(found.file->manifest.version, "1.0");
}

TEST(Catalog, ReadsOneFolderInOrderAndOnlyFilesWithTheSuffix) {
  const Folder folder;
  folder.copy("tiny", "b.lamina.so");
  folder.copy("same_family", "a.lamina.so");
  folder.copy("tiny", "c.so");
  fs::create_directory(folder / "below");
  folder.copy("tiny", "below/d.lamina.so");
  fs::create_symlink(folder / "b.lamina.so", folder / "link.lamina.so");
  const Catalog catalog = Catalog::scan(only(folder));
  ASSERT_EQ(catalog.plugins().size(), 2u);
  EXPECT_EQ(catalog.plugins()[0].path, folder / "a.lamina.so");
  EXPECT_EQ(catalog.plugins()[1].path, folder / "b.lamina.so");
}

TEST(Catalog, RefusesManifestsThatAreNotPlainTextOrContradictThemselves) {
  const auto scan = [](const char* name) { return Catalog::scan({.files = {zoo(name)}}); };
  EXPECT_ERROR_SAYS(scan("version_text"), ExitCode::plugin,
                    "it must not contain control characters");
  EXPECT_ERROR_SAYS(scan("min_host"), ExitCode::plugin,
                    "requires a host of at least 0.80, but is built for 0.");
}

TEST(Manifest, ANameBelongsToOneFamily) {
  const auto families = [](const std::string& list) {
    const std::string text = fmt::format(
        R"({{"id": "x", "version": "1", "abi_major": {}, "abi_built": {}, "abi_min_host": 0,)"
        R"( "families": [{}]}})",
        LAMINA_ABI_MAJOR, LAMINA_ABI_MINOR, list);
    return parse_manifest(text, "x.lamina.so").families.size();
  };
  EXPECT_EQ(families(R"({"name": "a", "aliases": ["b", "b", "a"]}, {"name": "c"})"), 2u);
  for (const char* list :
       {R"({"name": "a"}, {"name": "a"})", R"({"name": "b", "aliases": ["a"]}, {"name": "a"})",
        R"({"name": "b", "aliases": ["a"]}, {"name": "c", "aliases": ["a"]})"})
    EXPECT_ERROR_SAYS(families(list), ExitCode::plugin,
                      "x.lamina.so: its manifest has two families called 'a'\n"
                      "  give each family its own name and aliases");
}

TEST(Catalog, RefusesAFileThatExportsMoreThanItsEntry) {
  EXPECT_ERROR_SAYS(Catalog::scan({.files = {zoo("two_exports")}}), ExitCode::plugin,
                    "two_exports.lamina.so: exports 'one_more'; only 'lamina_plugin_v0' is "
                    "allowed");
}

TEST(Catalog, ListsAnUnusableFileAndContinues) {
  const Folder folder;
  folder.write("broken.lamina.so", "text");
  folder.copy("tiny", "tiny.lamina.so");
  const Catalog catalog = Catalog::scan(only(folder));
  EXPECT_EQ(catalog.find("tiny").family, "tiny");
  ASSERT_EQ(catalog.broken().size(), 1u);
  EXPECT_EQ(catalog.broken()[0].path, folder / "broken.lamina.so");
}

TEST(Catalog, AnUnusableFileThatIsNamedIsAnError) {
  const Folder folder;
  const fs::path broken = folder.write("broken.so", "text");
  EXPECT_ERROR_SAYS(Catalog::scan(only(folder, {broken})), ExitCode::plugin, "is not an ELF file");
}

TEST(Catalog, AbsentFamilyErrorListsNamesFoldersAndUnusableFiles) {
  const Folder folder;
  folder.write("broken.lamina.so", "text");
  folder.copy("tiny", "tiny.lamina.so");
  const Catalog catalog = Catalog::scan(only(folder));
  EXPECT_ERROR_SAYS(
      catalog.find("tinny", "run.toml:3"), ExitCode::plugin,
      fmt::format(
          "run.toml:3: no plugin has family 'tinny'; found: tiny\n"
          "  did you mean 'tiny'?\n"
          "  looked in: {0}\n"
          "  could not read {0}/broken.lamina.so: is not an ELF file, it begins with \"text\"; "
          "expected an ELF shared library\n"
          "  give a plugin with --plugin FILE, or its folder in LAMINA_PLUGIN_PATH",
          folder.path().string()));
}

TEST(Catalog, AbsentFamilyIsBlamedOnTheUnusableFileOfItsName) {
  const Folder folder;
  folder.write("tiny.lamina.so", bytes_of(zoo("tiny")).substr(0, 5000));
  const Catalog catalog = Catalog::scan(only(folder));
  EXPECT_ERROR_SAYS(catalog.find("tiny", "run.toml:3"), ExitCode::plugin,
                    "tiny.lamina.so: file has 5,000 bytes, but its ");
  EXPECT_ERROR_SAYS(catalog.find("tiny", "run.toml:3"), ExitCode::plugin,
                    "\n"
                    "  run.toml:3 refers to family 'tiny'\n");
}

TEST(Catalog, TwoFilesWithOneFamilyAreAnErrorUnlessOneIsNamed) {
  const Folder folder;
  const fs::path a = folder.copy("tiny", "a.lamina.so");
  const fs::path b = folder.copy("same_family", "b.lamina.so");
  EXPECT_ERROR_SAYS(Catalog::scan(only(folder)).find("tiny"), ExitCode::plugin,
                    fmt::format("two plugins have family 'tiny'; only one is allowed\n"
                                "  {}\n"
                                "  {}\n"
                                "  remove one, or choose with --plugin FILE",
                                a.string(), b.string()));
  EXPECT_EQ(Catalog::scan(only(folder, {b})).find("tiny").file->path, b);
}

TEST(Catalog, NamedFolderWinsOverOthers) {
  const Folder named, other;
  const fs::path a = named.copy("tiny", "tiny.lamina.so");
  other.copy("same_family", "a.lamina.so");
  const SearchPath search = {.named_folders = {named.path()}, .folders = {other.path()}};
  EXPECT_EQ(Catalog::scan(search).find("tiny").file->path, a);
}

TEST(Catalog, ANamedFileWinsOverNamedFolders) {
  const Folder files, named;
  const fs::path a = files.copy("tiny", "a.lamina.so"), b = files.copy("same_family", "b.so");
  named.copy("same_family", "c.lamina.so");
  SearchPath search = {.files = {a}, .named_folders = {named.path()}};
  EXPECT_EQ(Catalog::scan(search).find("tiny").file->path, a);
  search.files.push_back(b);
  EXPECT_ERROR_SAYS(Catalog::scan(search).find("tiny"), ExitCode::plugin,
                    fmt::format("two plugins have family 'tiny'; only one is allowed\n"
                                "  {}\n"
                                "  {}\n"
                                "  name only one of them with --plugin",
                                a.string(), b.string()));
}

TEST(Catalog, ANamedFileThatReadsAPublishedConfigWinsOverABetterMatch) {
  const Folder folder, other;
  folder.copy("tiny", "a.lamina.so");
  const fs::path third = other.copy("same_architecture", "third.lamina.so");
  const auto found = [](const Catalog& catalog, std::string_view type) {
    return catalog.find_published(type, {"TinyForCausalLM"}, "config.json").family;
  };
  EXPECT_EQ(found(Catalog::scan(only(folder, {third})), "tiny_type"), "third");
  const Catalog both = Catalog::scan({.files = {folder / "a.lamina.so", third}});
  EXPECT_EQ(found(both, "tiny_type"), "tiny");
  EXPECT_EQ(found(both, "third_type"), "third");
  const Catalog unfit = Catalog::scan(only(folder, {third}));
  EXPECT_EQ(unfit.find_published("tiny_type", {}, "config.json").family, "tiny");
}

TEST(Catalog, FindsTheFamilyOfAPublishedConfig) {
  const Folder folder;
  folder.copy("tiny", "a.lamina.so");
  const Catalog catalog = Catalog::scan(only(folder));
  EXPECT_EQ(catalog.find_published("tiny_type", {}, "config.json").family, "tiny");
  EXPECT_EQ(catalog.find_published("other", {"TinyForCausalLM"}, "config.json").family, "tiny");
  EXPECT_EQ(catalog.find_published("both", {"Both"}, "config.json", "tiny_type").family, "tiny");
  EXPECT_ERROR_SAYS(catalog.find_published("bert", {"Bert"}, "config.json"), ExitCode::plugin,
                    "config.json: no plugin reads checkpoints of model_type 'bert' and "
                    "architecture Bert; families found: tiny");
}

TEST(Catalog, ListsOtherFamiliesThatReadAPublishedConfig) {
  const Folder folder;
  folder.copy("tiny", "a.lamina.so");
  const fs::path third = folder.copy("same_architecture", "b.lamina.so");
  const Catalog catalog = Catalog::scan(only(folder));
  const auto of_tiny = catalog.other_readers("tiny", "tiny_type", {"TinyForCausalLM"}, "");
  ASSERT_EQ(of_tiny.size(), 1u);
  EXPECT_EQ(of_tiny[0].family, "third");
  EXPECT_EQ(of_tiny[0].file->path, third);
  EXPECT_TRUE(catalog.other_readers("tiny", "tiny_type", {"Other"}, "").empty());
  EXPECT_EQ(catalog.other_readers("third", "both", {"Other"}, "tiny_type").size(), 1u);
}

TEST(Catalog, TwoFilesThatReadAPublishedConfig) {
  const auto found = [](const Folder& folder, const char* where, std::string& printed) {
    ::testing::internal::CaptureStderr();
    std::string out;
    try {
      out = Catalog::scan(only(folder)).find_published("", {"TinyForCausalLM"}, where).family;
    } catch (const PluginError& refused) {
      out = refused.what();
    }
    printed = ::testing::internal::GetCapturedStderr();
    return out;
  };
  const Folder families, copies;
  std::string printed;
  const fs::path a = families.copy("tiny", "a.lamina.so");
  const fs::path b = families.copy("same_architecture", "b.lamina.so");
  EXPECT_EQ(found(families, "m/config.json", printed), "tiny");
  EXPECT_THAT(printed, ::testing::HasSubstr(fmt::format(
                           "m/config.json: {} and {} read this model; the first is used; remove "
                           "one, or choose with --plugin FILE\n",
                           a.string(), b.string())));
  copies.copy("tiny", "a.lamina.so");
  copies.copy("same_family", "b.lamina.so");
  EXPECT_THAT(found(copies, "m/config.json", printed),
              ::testing::HasSubstr("m/config.json: two plugins have family 'tiny'; only one is "
                                   "allowed\n"));
  EXPECT_EQ(printed, "");
}

TEST(Catalog, RefusesAManifestThatIsNotJsonOrOfAnotherAbi) {
  EXPECT_ERROR_SAYS(Catalog::scan({.files = {zoo("bad_json")}}), ExitCode::plugin,
                    "bad_json.lamina.so: manifest: byte ");
  EXPECT_ERROR_SAYS(Catalog::scan({.files = {zoo("old_abi")}}), ExitCode::plugin,
                    "old_abi.lamina.so: is built for plugin ABI 0.4; this host has 0.");
  EXPECT_ERROR_SAYS(Catalog::scan({.files = {zoo("needs_newer")}}), ExitCode::plugin,
                    "needs_newer.lamina.so: requires a host with plugin ABI 0.90 or later; this "
                    "host has 0.");
}

TEST(Catalog, RootRefusesAFileThatAnyoneMayChange) {
  const Folder folder;
  const fs::path file = folder.copy("tiny", "tiny.lamina.so");
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  SearchPath search = only(folder);
  search.refuse_writable = true;
  EXPECT_ERROR_SAYS(Catalog::scan(search).find("tiny"), ExitCode::plugin, "any user can change");
  search.refuse_writable = false;
  EXPECT_EQ(Catalog::scan(search).find("tiny").family, "tiny");
  if (::geteuid() != 0) {
    EXPECT_NO_THROW(require_trusted(file));
    return;
  }
  EXPECT_ERROR_SAYS(require_trusted(file), ExitCode::plugin, "any user can change");
  fs::permissions(file, fs::perms::others_write, fs::perm_options::remove);
  EXPECT_NO_THROW(require_trusted(file));
}

TEST(Catalog, RootGetsAMessageAboutSkippedPlugins) {
  const Folder folder;
  const fs::path file = folder.copy("tiny", "tiny.lamina.so");
  folder.copy("tiny", "second.lamina.so");
  const auto warnings_of = [&](SearchPath search) {
    search.refuse_writable = true;
    ::testing::internal::CaptureStderr();
    Catalog::scan(search);
    return ::testing::internal::GetCapturedStderr();
  };
  const SearchPath usual = only(folder);
  const SearchPath named{.named_folders = {folder.path()}};
  EXPECT_EQ(warnings_of(usual), "");
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  for (const SearchPath& search : {usual, named})
    EXPECT_THAT(warnings_of(search),
                ::testing::HasSubstr("plugins are skipped: any user can change '" + file.string() +
                                     "', and this program runs as root; remove the write "
                                     "permission (chmod o-w)"));
  fs::permissions(file, fs::perms::others_write, fs::perm_options::remove);
  fs::permissions(folder.path(), fs::perms::others_write, fs::perm_options::add);
  const std::string said = warnings_of(named);
  const std::string why =
      "any user can replace files in '" + fs::path(folder.path()).string() + "'";
  EXPECT_THAT(said, ::testing::HasSubstr(why));
  EXPECT_EQ(said.find(why), said.rfind(why)) << "one warning for the folder";
}

void open_to_all(const fs::path& folder, bool sticky = false) {
  fs::permissions(folder, fs::perms::all | (sticky ? fs::perms::sticky_bit : fs::perms::none));
}

TEST(Catalog, RootRefusesALinkThatAnyoneMayExchange) {
  const Folder folder;
  const fs::path file = folder.copy("tiny", "safe/tiny.lamina.so");
  fs::create_directory(folder / "open");
  fs::create_symlink(file, folder / "open/x.lamina.so");
  fs::create_directory_symlink(folder / "open", folder / "link");
  open_to_all(folder / "open");
  const std::string why = "any user can replace files in '" + (folder / "open").string() + "'";
  const auto search = [](std::vector<fs::path> files, std::vector<fs::path> folders) {
    return SearchPath{
        .files = std::move(files), .folders = std::move(folders), .refuse_writable = true};
  };
  ::testing::internal::CaptureStderr();
  for (const char* name : {"open", "link"})
    EXPECT_ERROR_SAYS(Catalog::scan(search({}, {folder / name})).find("tiny"), ExitCode::plugin,
                      why);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("plugins are skipped: " + why));
  EXPECT_ERROR_SAYS(Catalog::scan(search({folder / "open/x.lamina.so"}, {})), ExitCode::plugin,
                    why);

  ::testing::internal::CaptureStderr();
  const Catalog both = Catalog::scan(search({}, {folder / "open", folder / "safe"}));
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(both.find("tiny").file->path, file) << "the file itself is in a folder of root";
  ASSERT_EQ(both.broken().size(), 1u);
  EXPECT_EQ(both.broken()[0].path, folder / "open/x.lamina.so");
}

TEST(Trust, FoldersOfTheFileAndOfLinksCount) {
  const Folder folder;
  const fs::path file = folder.copy("tiny", "open/p/tiny.lamina.so");
  fs::create_directory(folder / "links");
  fs::create_symlink("../open/p/tiny.lamina.so", folder / "links/x.lamina.so");
  fs::create_symlink("self", folder / "links/self");
  const std::vector<fs::path> ways = {file, folder / "links/x.lamina.so",
                                      folder / "links/../open/./p/tiny.lamina.so"};
  for (const fs::path& way : ways) EXPECT_EQ(writable_by_anyone(way), "");
  EXPECT_EQ(writable_by_anyone(folder / "links/self"), "");
  EXPECT_EQ(writable_by_anyone(folder / "links/none/x"), "");
  fs::create_symlink("../tiny.lamina.so", folder / "open/p/up.lamina.so");
  fs::copy_file(file, folder / "open/tiny.lamina.so");
  open_to_all(folder / "open");
  for (const fs::path& way : ways) EXPECT_EQ(writable_by_anyone(way), "") << "further up";
  EXPECT_NE(writable_by_anyone(folder / "open/p/up.lamina.so"), "") << "the folder of its target";
  open_to_all(folder / "links");
  EXPECT_NE(writable_by_anyone(folder / "links/x.lamina.so"), "");
  EXPECT_EQ(writable_by_anyone(file), "");
  open_to_all(folder / "open/p", true);
  EXPECT_EQ(writable_by_anyone(file), "") << "entries are kept";
  fs::permissions(folder / "open/p", fs::perms::all);
  for (const fs::path& way : ways)
    EXPECT_EQ(writable_by_anyone(way), "any user can replace files in '" +
                                           (folder / "open/p").string() +
                                           "', and this program runs as root");
}

TEST(Trust, AFileOfAnotherUserIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give files away";
  const Folder folder;
  const fs::path file = folder.copy("tiny", "tiny.lamina.so");
  EXPECT_EQ(owned_by_another(file), "");
  ASSERT_EQ(::chown(file.c_str(), 65534, 65534), 0);
  EXPECT_EQ(owned_by_another(file),
            "'" + file.string() +
                "' belongs to user 65534, who can change it, and this program runs as root");
  ASSERT_EQ(::chown(file.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(file.parent_path().c_str(), 65534, 65534), 0);
  EXPECT_THAT(owned_by_another(file),
              ::testing::StartsWith("'" + file.parent_path().string() + "' belongs to user 65534"));
}

TEST(Trust, ALinkAndAFolderOfAnotherUserAreNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give files away";
  const Folder folder;
  const fs::path file = folder.copy("tiny", "above/p/tiny.lamina.so");
  const fs::path link = folder / "x.lamina.so";
  fs::create_symlink(file, link);
  EXPECT_EQ(owned_by_another(link), "");
  ASSERT_EQ(::lchown(link.c_str(), 65534, 65534), 0);
  EXPECT_THAT(owned_by_another(link),
              ::testing::StartsWith("'" + link.string() + "' belongs to user 65534"));
  EXPECT_EQ(owned_by_another(file), "");
  ASSERT_EQ(::chown((folder / "above/p").c_str(), 65534, 65534), 0);
  EXPECT_THAT(owned_by_another(file),
              ::testing::StartsWith("'" + (folder / "above/p").string() + "' belongs to user"));
}

}  // namespace
}  // namespace lamina::registry
