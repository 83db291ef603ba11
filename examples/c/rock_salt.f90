! The energy of rock salt by particle mesh Ewald, a displaced crystal, and an error with its reason.
program rock_salt
  use, intrinsic :: iso_c_binding
  use madelung
  implicit none

  integer, parameter :: edge = 8, atoms = edge**3
  real(c_double), parameter :: length = 2.82_c_double
  real(c_double), target :: positions(3, atoms), charges(atoms), forces(3, atoms), cell(3, 3), energy
  type(c_ptr) :: context, list
  type(madelung_system) :: salt
  type(madelung_sum) :: sum
  type(madelung_results) :: results
  integer :: n, place(3)

  if (8 * salt%size /= storage_size(salt) .or. 8 * sum%size /= storage_size(sum) &
      .or. 8 * results%size /= storage_size(results)) error stop "sizes of structs"
  cell = 0
  do n = 0, atoms - 1
    place = [n / edge**2, mod(n / edge, edge), mod(n, edge)]
    positions(:, n + 1) = length * place
    charges(n + 1) = merge(-1, 1, mod(place(1) + place(2) + place(3), 2) == 1)
  end do
  do n = 1, 3
    cell(n, n) = edge * length
  end do

  call check(madelung_context_new(0, context))
  salt%atoms = atoms
  salt%positions = c_loc(positions)
  salt%charges = c_loc(charges)
  salt%cell = c_loc(cell)
  sum%kind = madelung_pme
  sum%accuracy = 1e-6_c_double
  sum%prefactor = 14.3996454784_c_double
  results%energy = c_loc(energy)
  results%forces = c_loc(forces)

  call check(madelung_choose(salt, sum))
  call check(madelung_list_find(context, salt%atoms, salt%positions, salt%cell, c_null_ptr, sum%cutoff + 1, list))
  call check(madelung_energies(context, salt, list, sum, results))
  print '(f0.6, a, f0.6)', 2 * energy / atoms, " eV an ion pair, Madelung's constant ", &
    -2 * energy / atoms * length / sum%prefactor
  if (abs(-2 * energy / atoms * length / sum%prefactor - 1.7475645946_c_double) > 1e-5_c_double) error stop "energy"

  positions(1, 1) = positions(1, 1) + 0.1_c_double
  call check(madelung_energies(context, salt, list, sum, results))
  if (maxval(abs(forces)) < 1e-3_c_double .or. any(abs(forces(2:, 1)) > 1e-4_c_double)) error stop "forces"
  print '(a, f6.4, a)', "an atom that is moved by 0.1 A along an axis: forces up to ", maxval(abs(forces)), " eV/A"

  sum%kind = 77
  if (madelung_energies(context, salt, list, sum, results) /= madelung_argument) error stop "no error"
  print '(a)', madelung_reason()
  call madelung_list_free(list)
  call madelung_context_free(context)

contains

  subroutine check(status)
    integer(c_int32_t), intent(in) :: status

    if (status /= madelung_ok) then
      print '(a)', madelung_reason()
      error stop
    end if
  end subroutine

end program
