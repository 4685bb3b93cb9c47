// bfloat16 and IEEE half as storage types: conversion to and from float, round to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace lamina {

struct bfloat16 {
  std::uint16_t bits;
};

struct float16 {
  std::uint16_t bits;
};

inline float to_float(bfloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

inline bfloat16 to_bfloat16(float x) {
  std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u)  // a NaN stays a (quiet) NaN
    return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

inline float to_float(float16 x) {
  std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  std::uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u)  // infinity, NaN
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude < 0x400u) {  // zero, subnormal: exact in float
    float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

inline float16 to_float16(float x) {
  std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  std::uint16_t sign = static_cast<std::uint16_t>((u >> 16) & 0x8000u);
  u &= 0x7fffffffu;
  if (u >= 0x7f800000u)
    return {static_cast<std::uint16_t>(sign | 0x7c00u | (u > 0x7f800000u ? 0x200u : 0u))};
  if (u >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // rounds past 65504
  if (u < 0x38800000u) {
    // Adding 0.5 puts the half's last bit at the float's last bit: the hardware rounds for us.
    float shifted = std::bit_cast<float>(u) + 0.5f;
    return {static_cast<std::uint16_t>(
        sign | (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f)))};
  }
  u += 0xfffu + ((u >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | ((u >> 13) - (112u << 10)))};
}

}  // namespace lamina
