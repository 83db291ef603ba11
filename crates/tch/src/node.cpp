// A node of torch's graph whose backward pass is a function of Rust: what tch lacks, and all the C++ there is. That
// function may make nodes itself, by which gradients have gradients.
#include <torch/csrc/autograd/custom_function.h>

#include <stdexcept>
#include <string>
#include <vector>

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

extern "C" {
// The backward pass: of inputs, whether their gradients are wanted, and cotangents, null where zero, it makes
// gradients, new tensors that the caller frees, or null. It returns null, or the text of an error, the thread's until
// its next call.
struct madelung_tch_backward {
  void *state;
  const char *(*run)(const void *state, const Tensor *const *inputs, const unsigned char *wanted, size_t input_count,
                     const Tensor *const *cotangents, size_t cotangent_count, Tensor **gradients);
  void (*drop)(void *state);
};
}

namespace {

// What a node holds beside its inputs; freed with it.
struct Held : torch::CustomClassHolder {
  madelung_tch_backward backward;
  explicit Held(madelung_tch_backward backward) : backward(backward) {}
  ~Held() override { backward.drop(backward.state); }
};

struct Node : torch::autograd::Function<Node> {
  // The values are there before the node is. Inputs come as a TensorList: those in a vector would be none of the node.
  static variable_list forward(AutogradContext *context, at::TensorList inputs, c10::intrusive_ptr<Held> held,
                               const variable_list *values) {
    context->save_for_backward(inputs.vec());
    context->saved_data["held"] = c10::IValue::make_capsule(std::move(held));
    context->set_materialize_grads(false);
    return *values;
  }

  static variable_list backward(AutogradContext *context, variable_list cotangents) {
    auto held = c10::static_intrusive_pointer_cast<Held>(context->saved_data["held"].toCapsule());
    variable_list inputs = context->get_saved_variables();
    std::vector<const Tensor *> of_inputs, of_cotangents;
    std::vector<unsigned char> wanted;
    for (size_t n = 0; n < inputs.size(); n++) {
      of_inputs.push_back(&inputs[n]);
      wanted.push_back(context->needs_input_grad(n));
    }
    for (const Tensor &cotangent : cotangents) of_cotangents.push_back(cotangent.defined() ? &cotangent : nullptr);
    std::vector<Tensor *> made(inputs.size(), nullptr);
    const char *error = held->backward.run(held->backward.state, of_inputs.data(), wanted.data(), inputs.size(),
                                           of_cotangents.data(), cotangents.size(), made.data());
    if (error) throw std::runtime_error(error);
    // The two arguments behind the inputs have no gradients.
    variable_list gradients(inputs.size() + 2);
    for (size_t n = 0; n < made.size(); n++) {
      if (made[n]) gradients[n] = *made[n];
      delete made[n];
    }
    return gradients;
  }
};

}  // namespace

// Puts values (tensors that nothing else refers to) behind a node with these inputs. Returns null, or the text of an
// error. The state of the backward pass is the node's in either case.
extern "C" const char *madelung_tch_record(madelung_tch_backward backward, const Tensor *const *inputs,
                                           size_t input_count, Tensor *const *values, size_t value_count) {
  static thread_local std::string text;
  try {
    auto held = c10::make_intrusive<Held>(backward);
    variable_list all, results;
    for (size_t n = 0; n < input_count; n++) all.push_back(*inputs[n]);
    for (size_t n = 0; n < value_count; n++) results.push_back(*values[n]);
    const variable_list *given = &results;
    variable_list recorded = Node::apply(at::TensorList(all), std::move(held), given);
    for (size_t n = 0; n < value_count; n++) *values[n] = std::move(recorded[n]);
    return nullptr;
  } catch (const std::exception &error) {
    text = error.what();
  } catch (...) {
    text = "an exception of C++";
  }
  return text.c_str();
}
