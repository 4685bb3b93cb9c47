// Comparison of our declarations of a library with its header, which is included only where it is
// installed.
#pragma once

#include <type_traits>

namespace lamina::cuda {

// True if arguments of both types are passed in the same way.
template <typename A, typename B>
constexpr bool same_argument =
    sizeof(A) == sizeof(B) &&
    std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_floating_point_v<A> ==
        std::is_floating_point_v<B>&& std::is_class_v<A> == std::is_class_v<B>;

template <>
inline constexpr bool same_argument<void, void> = true;

// True if calls through both pointers to functions are the same.
template <typename A, typename B>
constexpr bool same_call = false;
template <typename A, typename... As, typename B, typename... Bs>
requires(sizeof...(As) == sizeof...(Bs)) constexpr bool same_call<A (*)(As...), B (*)(Bs...)> =
    same_argument<A, B> && (same_argument<As, Bs> && ...);

// True if two constants have the same value.
template <typename A, typename B>
constexpr bool same(A a, B b) {
  return static_cast<long long>(a) == static_cast<long long>(b);
}

}  // namespace lamina::cuda
