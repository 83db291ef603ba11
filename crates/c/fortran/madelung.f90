! The Fortran module over madelung.h (Fortran 2003, iso_c_binding): the same names, types and calls, which docs/c.md says.
!
! Arrays are those of Fortran as they lie in memory: positions and forces (3, N), the lattice vectors in the columns of a
! cell (3, 3). Pointers come from c_loc of arrays that are targets; c_null_ptr is what is left out.
module madelung
  use, intrinsic :: iso_c_binding
  implicit none
  private

  integer(c_int32_t), parameter, public :: madelung_ok = 0, madelung_argument = 1, madelung_unsupported = 2
  integer(c_int32_t), parameter, public :: madelung_memory = 3, madelung_internal = 4
  integer(c_int32_t), parameter, public :: madelung_ewald = 0, madelung_pme = 1, madelung_coulomb = 2, madelung_dsf = 3
  integer(c_int32_t), parameter, public :: madelung_real_space = 4, madelung_reciprocal_space = 5
  integer(c_int32_t), parameter, public :: madelung_full = 0, madelung_half = 1
  integer(c_int32_t), parameter, public :: madelung_taper = 0, madelung_switch = 1, madelung_cut = 2

  ! Charged particles.
  type, bind(c), public :: madelung_system
    integer(c_int32_t) :: size = 88
    integer(c_int32_t) :: has_periodic = 0
    integer(c_int64_t) :: atoms = 0
    type(c_ptr) :: positions = c_null_ptr
    type(c_ptr) :: charges = c_null_ptr
    type(c_ptr) :: cell = c_null_ptr
    integer(c_int32_t) :: periodic(3) = 0
    type(c_ptr) :: widths = c_null_ptr
    integer(c_int64_t) :: exclusions = 0
    type(c_ptr) :: excluded = c_null_ptr
    type(c_ptr) :: factors = c_null_ptr
  end type

  ! A sum and its parameters.
  type, bind(c), public :: madelung_sum
    integer(c_int32_t) :: size = 64
    integer(c_int32_t) :: kind = madelung_ewald
    real(c_double) :: accuracy = 0
    real(c_double) :: alpha = 0
    real(c_double) :: cutoff = 0
    real(c_double) :: k_cutoff = 0
    integer(c_int32_t) :: mesh(3) = 0
    integer(c_int32_t) :: spline_order = 0
    real(c_double) :: prefactor = 0
  end type

  ! Arrays for results.
  type, bind(c), public :: madelung_results
    integer(c_int32_t) :: size = 48
    integer(c_int32_t) :: adds = 0
    type(c_ptr) :: energy = c_null_ptr
    type(c_ptr) :: energies = c_null_ptr
    type(c_ptr) :: forces = c_null_ptr
    type(c_ptr) :: charge_gradients = c_null_ptr
    type(c_ptr) :: virial = c_null_ptr
  end type

  public :: madelung_context_new, madelung_context_free, madelung_list_find, madelung_list_from_rows, madelung_list_free
  ! Messages of the processes that share a system.
  type, bind(c), public :: madelung_exchange
    integer(c_int32_t) :: size = 32
    integer(c_int32_t) :: rank = 0
    integer(c_int32_t) :: ranks = 1
    type(c_ptr) :: data = c_null_ptr
    type(c_funptr) :: all_to_all = c_null_funptr
  end type

  public :: madelung_choose_mesh, madelung_mesh_of_domain
  public :: madelung_choose, madelung_energies, madelung_pair_potential, madelung_reason

  interface
    integer(c_int32_t) function madelung_context_new(threads, context) bind(c)
      import :: c_int32_t, c_ptr
      integer(c_int32_t), value :: threads
      type(c_ptr), intent(out) :: context
    end function

    subroutine madelung_context_free(context) bind(c)
      import :: c_ptr
      type(c_ptr), value :: context
    end subroutine

    integer(c_int32_t) function madelung_list_find(context, atoms, positions, cell, periodic, cutoff, list) bind(c)
      import :: c_int32_t, c_int64_t, c_double, c_ptr
      type(c_ptr), value :: context, positions, cell, periodic
      integer(c_int64_t), value :: atoms
      real(c_double), value :: cutoff
      type(c_ptr), intent(out) :: list
    end function

    integer(c_int32_t) function madelung_list_from_rows(atoms, first, others, shifts, kind, list) bind(c)
      import :: c_int32_t, c_int64_t, c_ptr
      integer(c_int64_t), value :: atoms
      type(c_ptr), value :: first, others, shifts
      integer(c_int32_t), value :: kind
      type(c_ptr), intent(out) :: list
    end function

    integer(c_int32_t) function madelung_list_of_domain(context, own, atoms, positions, rows, count, lengths, &
        others, mask, bits, wanted, kind, list) bind(c)
      import :: c_int32_t, c_int64_t, c_ptr
      integer(c_int64_t), value :: own, atoms, count
      type(c_ptr), value :: context, positions, rows, lengths, others
      integer(c_int32_t), value :: mask, bits, wanted, kind
      type(c_ptr), intent(out) :: list
    end function

    subroutine madelung_list_free(list) bind(c)
      import :: c_ptr
      type(c_ptr), value :: list
    end subroutine

    integer(c_int32_t) function madelung_choose(system, sum) bind(c)
      import :: c_int32_t, madelung_system, madelung_sum
      type(madelung_system), intent(in) :: system
      type(madelung_sum), intent(inout) :: sum
    end function

    integer(c_int32_t) function madelung_choose_mesh(atoms, cell, sum) bind(c)
      import :: c_int32_t, c_int64_t, c_ptr, madelung_sum
      integer(c_int64_t), value :: atoms
      type(c_ptr), value :: cell
      type(madelung_sum), intent(inout) :: sum
    end function

    integer(c_int32_t) function madelung_mesh_of_domain(context, exchange, system, sum, results) bind(c)
      import :: c_int32_t, c_ptr, madelung_exchange, madelung_system, madelung_sum, madelung_results
      type(c_ptr), value :: context
      type(madelung_exchange), intent(in) :: exchange
      type(madelung_system), intent(in) :: system
      type(madelung_sum), intent(in) :: sum
      type(madelung_results), intent(in) :: results
    end function

    integer(c_int32_t) function madelung_energies(context, system, list, sum, results) bind(c)
      import :: c_int32_t, c_ptr, madelung_system, madelung_sum, madelung_results
      type(c_ptr), value :: context, list
      type(madelung_system), intent(in) :: system
      type(madelung_sum), intent(in) :: sum
      type(madelung_results), intent(in) :: results
    end function

    integer(c_int32_t) function madelung_pair_potential(context, system, list, name, types, kinds, tables, parameters, &
        prefactor, cutoff, end, onset, results) bind(c)
      import :: c_int32_t, c_int64_t, c_double, c_char, c_ptr, madelung_system, madelung_results
      type(c_ptr), value :: context, list, types
      type(madelung_system), intent(in) :: system
      character(c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: kinds, parameters
      type(c_ptr), intent(in) :: tables(*)
      real(c_double), value :: prefactor, cutoff, onset
      integer(c_int32_t), value :: end
      type(madelung_results), intent(in) :: results
    end function

    type(c_ptr) function madelung_last_error() bind(c)
      import :: c_ptr
    end function

    integer(c_size_t) function c_strlen(text) bind(c, name="strlen")
      import :: c_size_t, c_ptr
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! The reason of the last call of this thread that failed.
  function madelung_reason() result(reason)
    character(:), allocatable :: reason
    character(c_char), pointer :: text(:)
    type(c_ptr) :: address
    integer :: k, n

    address = madelung_last_error()
    n = int(c_strlen(address))
    call c_f_pointer(address, text, [n])
    allocate(character(n) :: reason)
    do k = 1, n
      reason(k:k) = text(k)
    end do
  end function

end module
