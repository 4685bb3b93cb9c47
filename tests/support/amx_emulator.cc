#include "support/amx_emulator.h"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/threads/isa.h"
#include "support/amx_arithmetic.h"

namespace lamina::testing {
namespace {

std::atomic<std::int64_t> emulated{0};

#if defined(__x86_64__)

struct TileRegisters {
  bool is_configured = false;
  AmxTile tiles[8];
};
thread_local TileRegisters registers;

// An instruction with a VEX prefix of three bytes: Intel's manual, volume 2, section 2.3.
struct Instruction {
  int length;             // bytes
  int prefix;             // 0, or the place of 66, F3, F2 in this order
  std::uint8_t code;      // opcode in map 0F38
  int reg, rm, vvvv;      // numbers of tiles
  bool is_memory;         // rm is a memory operand:
  bool has_index;         // with a SIB byte
  std::uint8_t* address;  // of its first row
  std::int64_t row_step;  // bytes
};

[[noreturn]] void fault(const char* instruction, const char* problem) {
  std::fprintf(stderr, "AMX: %s faults: %s\n", instruction, problem);
  std::abort();
}

std::int64_t general_register(const ucontext_t& context, int number) {
  constexpr std::array<int, 16> kPlaces = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                           REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                           REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[kPlaces[static_cast<std::size_t>(number)]];
}

std::int64_t displacement(const std::uint8_t* from, int bytes) {
  if (bytes == 1) return static_cast<std::int8_t>(*from);
  std::int32_t value = 0;
  if (bytes == 4) std::memcpy(&value, from, sizeof value);
  return value;
}

// Reads the memory operand after the ModRM byte at code[4]. `extend_*` are the fourth bits of the
// numbers of registers.
void decode_memory(const std::uint8_t* code, const ucontext_t& context, int extend_index,
                   int extend_base, Instruction& out) {
  const int mode = code[4] >> 6;
  out.has_index = (code[4] & 7) == 4;
  out.length = out.has_index ? 6 : 5;
  const int base = (out.has_index ? code[5] & 7 : code[4] & 7);
  const bool no_base = mode == 0 && base == 5;
  const int bytes = mode == 1 ? 1 : mode == 2 || no_base ? 4 : 0;
  std::int64_t address = displacement(code + out.length, bytes);
  out.length += bytes;
  if (!no_base)
    address += general_register(context, base | extend_base);
  else if (!out.has_index)  // relative to the next instruction
    address += reinterpret_cast<std::int64_t>(code) + out.length;
  if (out.has_index) {
    const int index = (code[5] >> 3 & 7) | extend_index;
    if (index != 4) out.row_step = general_register(context, index) << (code[5] >> 6);
  }
  out.address = reinterpret_cast<std::uint8_t*>(address);
}

// Returns false for other instructions.
bool decode(const ucontext_t& context, Instruction& out) {
  const auto* code = reinterpret_cast<const std::uint8_t*>(context.uc_mcontext.gregs[REG_RIP]);
  constexpr std::uint8_t kVex3 = 0xc4, kMap0F38 = 2, kWideOr256 = 0x84;
  if (code[0] != kVex3 || (code[1] & 31) != kMap0F38 || (code[2] & kWideOr256) != 0) return false;
  const auto fourth_bit = [&](int bit) { return (code[1] >> bit & 1) == 0 ? 8 : 0; };
  out = {};
  out.prefix = code[2] & 3;
  out.code = code[3];
  out.vvvv = ~(code[2] >> 3) & 15;
  out.reg = (code[4] >> 3 & 7) | fourth_bit(7);
  out.is_memory = code[4] >> 6 != 3;
  if (out.is_memory) {
    decode_memory(code, context, fourth_bit(6), fourth_bit(5), out);
  } else {
    out.rm = (code[4] & 7) | fourth_bit(5);
    out.length = 5;
  }
  return true;
}

void load_configuration(const std::uint8_t* from) {
  constexpr const char* kName = "LDTILECFG";
  registers = {};
  if (from[0] == 0) return;
  if (from[0] != 1) fault(kName, "unknown palette");
  if (from[1] != 0) fault(kName, "expected start_row 0");
  const auto is_zero = [&](int begin, int end) {
    return std::all_of(from + begin, from + end, [](std::uint8_t byte) { return byte == 0; });
  };
  if (!is_zero(2, 16) || !is_zero(32, 48) || !is_zero(56, 64))
    fault(kName, "reserved bytes are not 0");
  for (int t = 0; t < 8; ++t) {
    AmxTile& tile = registers.tiles[t];
    tile.rows = from[48 + t];
    std::memcpy(&tile.row_bytes, from + 16 + 2 * t, sizeof tile.row_bytes);
    if (tile.rows > 16) fault(kName, "a tile of more than 16 rows");
    if (tile.row_bytes > 64) fault(kName, "a row of more than 64 bytes");
    if ((tile.rows == 0) != (tile.row_bytes == 0))
      fault(kName, "a tile with rows of 0 bytes, or with bytes but no rows");
  }
  registers.is_configured = true;
}

AmxTile& valid_tile(const char* name, int tile) {
  if (!registers.is_configured) fault(name, "tiles are not configured");
  if (tile > 7) fault(name, "there are 8 tiles");
  if (registers.tiles[tile].rows == 0) fault(name, "the tile is not configured");
  return registers.tiles[tile];
}

void load_or_store(const Instruction& i, const char* name, bool is_load) {
  if (!i.has_index) fault(name, "the memory operand has no SIB byte");
  AmxTile& tile = valid_tile(name, i.reg);
  if (is_load) std::memset(tile.bytes, 0, sizeof tile.bytes);
  std::uint8_t* row = i.address;
  for (int r = 0; r < tile.rows; ++r, row += i.row_step) {
    if (is_load)
      std::memcpy(tile.bytes[r], row, tile.row_bytes);
    else
      std::memcpy(row, tile.bytes[r], tile.row_bytes);
  }
}

void multiply(const Instruction& i, bool is_bf16) {
  constexpr const char* kInt8Names[] = {"TDPBUUD", "TDPBUSD", "TDPBSUD", "TDPBSSD"};
  const char* name = is_bf16 ? "TDPBF16PS" : kInt8Names[i.prefix];
  AmxTile& c = valid_tile(name, i.reg);
  const AmxTile& a = valid_tile(name, i.rm);
  const AmxTile& b = valid_tile(name, i.vvvv);
  if (const char* problem = amx_shapes_problem(c, a, b)) fault(name, problem);
  if (is_bf16)
    amx_multiply_bf16(c, a, b);
  else  // the prefixes 66 and F2: b is signed; F3 and F2: a is signed
    amx_multiply_int8(c, a, b, i.prefix >= 2, i.prefix == 1 || i.prefix == 3);
}

// Returns false for other instructions.
bool compute(const Instruction& i) {
  constexpr int kNone = 0, k66 = 1, kF3 = 2, kF2 = 3;
  switch (i.code) {
    case 0x49:
      if (i.prefix == kNone && i.is_memory) return load_configuration(i.address), true;
      if (i.prefix == kNone && i.reg == 0 && i.rm == 0) return registers = {}, true;
      if (i.prefix != kF2 || i.is_memory || i.rm != 0) return false;
      std::memset(valid_tile("TILEZERO", i.reg).bytes, 0, sizeof AmxTile::bytes);
      return true;
    case 0x4b:
      if (!i.is_memory || i.prefix == kNone) return false;
      if (i.prefix == kF3) return load_or_store(i, "TILESTORED", false), true;
      return load_or_store(i, i.prefix == k66 ? "TILELOADDT1" : "TILELOADD", true), true;
    case 0x5c:
      if (i.is_memory || i.prefix != kF3) return false;
      return multiply(i, true), true;
    case 0x5e:
      if (i.is_memory) return false;
      return multiply(i, false), true;
    default:
      return false;
  }
}

void on_illegal_instruction(int, siginfo_t*, void* where) {
  auto& context = *static_cast<ucontext_t*>(where);
  Instruction instruction;
  if (!decode(context, instruction) || !compute(instruction)) {
    signal(SIGILL, SIG_DFL);  // the instruction runs again, and ends the process
    return;
  }
  emulated.fetch_add(1, std::memory_order_relaxed);
  context.uc_mcontext.gregs[REG_RIP] += instruction.length;
}

#endif

}  // namespace

AmxEmulator::AmxEmulator() : instructions_before_(emulated.load()) {
#if defined(__x86_64__)
  // Asks for the permission to use AMX, without which its instructions raise SIGILL too.
  static_cast<void>(cpu::has_matrix_unit());
  struct sigaction action = {};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &before_);
#endif
}

AmxEmulator::~AmxEmulator() {
#if defined(__x86_64__)
  sigaction(SIGILL, &before_, nullptr);
#endif
}

std::int64_t AmxEmulator::instructions() const { return emulated.load() - instructions_before_; }

}  // namespace lamina::testing
