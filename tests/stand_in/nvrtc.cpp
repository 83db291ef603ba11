// A stand-in for libnvrtc.so: CUDA text becomes a library by the host's C++ compiler, behind host.cuh. The folder of
// this library has host.cuh and blocks.cuh in it.
#include "log.hpp"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <spawn.h>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using stand_in::log;

namespace {

enum Result { success = 0, invalid_input = 3, invalid_program = 4, invalid_option = 5, compilation = 6 };

struct Program {
  std::string text, name, log, made;
  bool is_virtual = false;
};
std::mutex lock;
std::set<Program*> programs;
const std::vector<int> known = {75, 80, 86, 89, 90, 100, 120};

std::vector<int> architectures() {
  const char* highest = std::getenv("STAND_IN_NVRTC_HIGHEST");
  std::vector<int> out;
  for (int a : known)
    if (!highest || a <= std::atoi(highest)) out.push_back(a);
  return out;
}

std::string folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&folder), &info)) return ".";
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}
std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}
std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// Runs a command with its output in a file; whether it succeeded.
bool run(const std::vector<std::string>& command, const std::string& output) {
  std::vector<char*> arguments;
  for (auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // Not `fork`, which copies the page tables of a process: many, with all of PyTorch in it.
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t child;
  const bool began = !posix_spawnp(&child, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  int status = 0;
  return began && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The names behind `extern "C" __global__ void`, in a text without macros.
std::vector<std::string> kernels(const std::string& text) {
  std::vector<std::string> out;
  const std::string mark = "STAND_IN_GLOBAL";
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const std::vector<std::string> before = words(text.substr(at < 40 ? 0 : at - 40, at < 40 ? at : 40));
    if (before.empty() || before.back() != "\"C\"") continue;
    size_t p = at + mark.size();
    std::string name;
    for (; p < text.size(); ++p) {
      if (std::isalnum((unsigned char)text[p]) || text[p] == '_') {
        const size_t from = p;
        while (std::isalnum((unsigned char)text[p]) || text[p] == '_') ++p;
        name = text.substr(from, p-- - from);
      } else if (text[p] == '(') {
        if (name != "__launch_bounds__") break;
        for (int depth = 0; p < text.size(); ++p) {
          depth += text[p] == '(';
          depth -= text[p] == ')';
          if (!depth) break;
        }
      }
    }
    out.push_back(name);
  }
  return out;
}

// The options of texts, and of the header ahead of them. Fused products are one instruction, with the same bits, where the
// processor has it.
std::vector<std::string> chosen() {
  std::vector<std::string> all = {"-std=c++17", "-O1", "-fPIC", "-ffp-contract=off", "-w", "-DSTAND_IN_APART"};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma")) all.push_back("-mfma");
#endif
  return all;
}
const std::vector<std::string> options = chosen();

// The header ahead of all texts, and blocks and threads, compiled once: both take longer than a text. Compilers that do not
// take the first read the header. Returns the second.
std::string precompile(const std::vector<std::string>& compiler) {
  const std::string header = folder() + "/host.cuh", blocks = folder() + "/blocks.cuh", body = folder() + "/blocks.o";
  typedef std::vector<std::string> Words;
  for (const auto& [made, words] :
       {std::pair(header + ".gch", Words{"-x", "c++-header", header}),
        std::pair(body, Words{"-USTAND_IN_APART", "-DSTAND_IN_BODY", "-include", header, "-x", "c++", "-c", blocks})}) {
    if (std::filesystem::exists(made)) continue;
    const std::string own = made + std::to_string(getpid());
    std::vector<std::string> command = compiler;
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), words.begin(), words.end());
    command.insert(command.end(), {"-o", own});
    if (run(command, own + ".log")) rename(own.c_str(), made.c_str());
    unlink((own + ".log").c_str());
  }
  return body;
}

Result compile(Program& p, int architecture, const std::vector<std::string>& defines) {
  const char* given = std::getenv("CXX");
  std::vector<std::string> compiler = words(given && *given ? given : "c++");
  std::string at = std::filesystem::temp_directory_path() / "stand-in-nvrtc-XXXXXX";
  if (!mkdtemp(at.data())) return compilation;
  const std::string body = precompile(compiler);
  const std::string source = at + "/text.cpp", made = at + "/text.so", output = at + "/log",
                    scope = at + "/scope";
  std::ofstream(source) << p.text;
  std::vector<std::string> command = compiler;
  command.insert(command.end(), {"-std=c++17", "-E", "-P", "-D__global__=STAND_IN_GLOBAL"});
  command.insert(command.end(), defines.begin(), defines.end());
  command.push_back(source);
  // A text that the preprocessor refuses is refused again below, with its log.
  const std::vector<std::string> names = run(command, output) ? kernels(read(output)) : std::vector<std::string>();
  std::ofstream whole(source);
  whole << "#include \"" << folder() << "/host.cuh\"\n#line 1 \"" << p.name << "\"\n" << p.text << "\nextern \"C\" {\n"
        << "extern const int stand_in_architecture = " << architecture << ", stand_in_virtual = " << p.is_virtual << ";\n";
  for (auto& name : names)
    whole << "extern const stand_in::Kernel stand_in_kernel_" << name << " = stand_in::Entry<&" << name << ">::kernel;\n";
  whole << "}\n";
  const bool races = std::getenv("STAND_IN_RACES");
  if (races) whole << read(folder() + "/races.cuh");
  whole.close();
  command = compiler;
  // Only what the driver looks up is seen from outside: modules that are loaded together share nothing.
  std::ofstream(scope) << "{ global: stand_in_*; local: *; };\n";
  command.insert(command.end(), {"-shared", "-Wl,--version-script=" + scope});
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), defines.begin(), defines.end());
  bool done = true;
  std::string from = source;
  if (races) {
    // Linked by itself, for the functions that the compiler calls are those of the text.
    std::vector<std::string> first = compiler;
    first.insert(first.end(), options.begin(), options.end());
    first.push_back("-fsanitize=thread");
#ifdef __clang__
    // The compiler of this library is that of the texts.
    first.insert(first.end(), {"-mllvm", "-tsan-distinguish-volatile=1"});
#else
    first.push_back("--param=tsan-distinguish-volatile=1");
#endif
    first.insert(first.end(), defines.begin(), defines.end());
    first.insert(first.end(), {"-c", source, "-o", from = at + "/text.o"});
    done = run(first, output);
  }
  command.insert(command.end(), {from, body, "-o", made});
  done = done && run(command, output);
  p.log = read(output);
  p.made = done ? read(made) : "";
  for (auto& file : {source, from, made, output, scope}) unlink(file.c_str());
  rmdir(at.c_str());
  return done ? success : compilation;
}

}  // namespace

#define KNOWN(program)                              \
  std::lock_guard<std::mutex> held(lock);           \
  auto* p = static_cast<Program*>(program);         \
  if (!programs.count(p)) return invalid_program

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  log("nvrtcVersion");
  *major = 12;
  // What looks for races is kept on disk by itself.
  *minor = std::getenv("STAND_IN_RACES") ? 9 : 8;
  return success;
}
const char* nvrtcGetErrorString(int error) {
  switch (error) {
    case success: return "NVRTC_SUCCESS";
    case invalid_input: return "NVRTC_ERROR_INVALID_INPUT";
    case invalid_program: return "NVRTC_ERROR_INVALID_PROGRAM";
    case invalid_option: return "NVRTC_ERROR_INVALID_OPTION";
    case compilation: return "NVRTC_ERROR_COMPILATION";
    default: return "NVRTC_ERROR unknown";
  }
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = int(architectures().size());
  return success;
}
int nvrtcGetSupportedArchs(int* out) {
  for (int a : architectures()) *out++ = a;
  return success;
}
int nvrtcCreateProgram(void** program, const char* text, const char* name, int headers, const char* const*, const char* const*) {
  log("nvrtcCreateProgram");
  if (!text || headers) return invalid_input;
  std::lock_guard<std::mutex> held(lock);
  auto* p = new Program{text, name ? name : "default_program", {}, {}};
  programs.insert(p);
  *program = p;
  return success;
}
int nvrtcDestroyProgram(void** program) {
  log("nvrtcDestroyProgram");
  KNOWN(*program);
  programs.erase(p);
  delete p;
  *program = nullptr;
  return success;
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  log("nvrtcCompileProgram");
  KNOWN(program);
  int architecture = 75;
  p->is_virtual = true;
  std::vector<std::string> defines;
  for (int n = 0; n < count; ++n) {
    const std::string option = options[n];
    const size_t equals = option.find('=');
    const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
    if (option.rfind("--gpu-architecture=", 0) == 0) {
      const bool real = value.rfind("sm_", 0) == 0;
      architecture = std::atoi(value.c_str() + (real ? 3 : 8));
      p->is_virtual = !real;
      bool found = false;
      for (int a : architectures()) found |= a == architecture;
      if (!found) {
        p->log = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
        return invalid_option;
      }
    } else if (option.rfind("--define-macro=", 0) == 0) {
      defines.push_back("-D" + value);
    } else if (option != "--std=c++17" && option.rfind("--fmad=", 0) != 0 && option != "--device-as-default-execution-space") {
      p->log = "nvrtc: error: unrecognized option " + option + " found\n";
      return invalid_option;
    }
  }
  return compile(*p, architecture, defines);
}
int nvrtcGetProgramLogSize(void* program, size_t* bytes) {
  KNOWN(program);
  *bytes = p->log.size() + 1;
  return success;
}
int nvrtcGetProgramLog(void* program, char* out) {
  KNOWN(program);
  std::memcpy(out, p->log.c_str(), p->log.size() + 1);
  return success;
}
int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  KNOWN(program);
  *bytes = p->is_virtual ? 0 : p->made.size();
  return success;
}
int nvrtcGetCUBIN(void* program, char* out) {
  KNOWN(program);
  if (p->is_virtual || p->made.empty()) return invalid_program;
  std::memcpy(out, p->made.data(), p->made.size());
  return success;
}
// PTX is a text that ends with a zero: the library's bytes in hexadecimal.
int nvrtcGetPTXSize(void* program, size_t* bytes) {
  KNOWN(program);
  *bytes = p->made.empty() ? 0 : sizeof "// stand-in PTX\n" + 2 * p->made.size();
  return success;
}
int nvrtcGetPTX(void* program, char* out) {
  KNOWN(program);
  if (p->made.empty()) return invalid_program;
  out += std::sprintf(out, "// stand-in PTX\n");
  for (unsigned char byte : p->made) out += std::sprintf(out, "%02x", byte);
  return success;
}

}  // extern "C"
