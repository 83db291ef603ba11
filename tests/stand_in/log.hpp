// The calls that a stand-in library saw, by name.
#pragma once
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

namespace stand_in {
static std::mutex log_lock;
// By the address of the name, so that a count costs next to nothing.
static std::unordered_map<const char*, unsigned long long> calls;
// What goes to streams, a line each, once somebody asks.
static std::string queued, asked;
static bool is_asked = false;
static void log_queued(const std::string& line) {
  std::lock_guard<std::mutex> held(log_lock);
  if (is_asked) queued += line + "\n";
}
static void log(const char* name) {
  std::lock_guard<std::mutex> held(log_lock);
  ++calls[name];
}
}  // namespace stand_in

// How often a function was called; with null, all of them together.
extern "C" unsigned long long stand_in_calls(const char* name) {
  std::lock_guard<std::mutex> held(stand_in::log_lock);
  unsigned long long sum = 0;
  for (auto& call : stand_in::calls)
    if (!name || std::strcmp(call.first, name) == 0) sum += call.second;
  return sum;
}

// What went to streams since this was last called: kernels by name with their blocks and threads, and fills with their bytes.
extern "C" const char* stand_in_queued() {
  std::lock_guard<std::mutex> held(stand_in::log_lock);
  stand_in::is_asked = true;
  stand_in::asked.swap(stand_in::queued);
  stand_in::queued.clear();
  return stand_in::asked.c_str();
}
