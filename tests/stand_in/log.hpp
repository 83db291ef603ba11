// The calls that a stand-in library saw, by name.
#pragma once
#include <map>
#include <mutex>
#include <string>

namespace stand_in {
static std::mutex log_lock;
static std::map<std::string, unsigned long long> calls;
static void log(const char* name) {
  std::lock_guard<std::mutex> held(log_lock);
  ++calls[name];
}
}  // namespace stand_in

// How often a function was called; with null, all of them together.
extern "C" unsigned long long stand_in_calls(const char* name) {
  std::lock_guard<std::mutex> held(stand_in::log_lock);
  if (name) return stand_in::calls.count(name) ? stand_in::calls[name] : 0;
  unsigned long long sum = 0;
  for (auto& call : stand_in::calls) sum += call.second;
  return sum;
}
