// SPDX-License-Identifier: Apache-2.0
//! System calls that no program of ours makes, refused by seccomp(2).
//!
//! They are named one by one and fail with EPERM. A list of what is allowed would be stricter, but depend on the version of the
//! C library: a call that it began to make would end the program.

use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// Programs, other processes, mounts, namespaces, kernel modules, clocks, keys, and interfaces of the kernel with many faults.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_perf_event_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_userfaultfd,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_personality,
];

/// Commands of bpf(2) that attach a program which was loaded before: `BPF_MAP_UPDATE_ELEM` and `BPF_LINK_CREATE` of
/// `linux/bpf.h`.
const ATTACHING: [u64; 2] = [2, 28];

/// Refuses the calls in all threads; returns how many. The text says why not.
pub(crate) fn restrict(bpf: Bpf) -> Result<usize, String> {
    let calls = compile(refused(bpf)?, libc::EPERM)?;
    // clone3's flags are in memory, where a filter cannot see them. The C library tries clone when it is unknown.
    let clone3 = compile(vec![(libc::SYS_clone3, Vec::new())], libc::ENOSYS)?;
    for program in [&other_numbers(), &clone3, &calls] {
        install(program).map_err(|error| error.to_string())?;
    }
    // With bpf, of which a part may be allowed, and clone3.
    Ok(REFUSED.len() + 2)
}

/// What is allowed of bpf(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bpf {
    Nothing,
    /// [`ATTACHING`]: what is loaded, and what is in its maps, was there before.
    Attaching,
}

type Rules = Vec<(libc::c_long, Vec<SeccompRule>)>;

fn refused(bpf: Bpf) -> Result<Rules, String> {
    let new_user_namespace = libc::CLONE_NEWUSER as u64;
    let masked = SeccompCmpOp::MaskedEq(new_user_namespace);
    let clone = vec![first_argument(
        SeccompCmpArgLen::Qword,
        [(masked, new_user_namespace)],
    )?];
    let bpf = match bpf {
        Bpf::Nothing => Vec::new(),
        Bpf::Attaching => {
            let others = ATTACHING.map(|command| (SeccompCmpOp::Ne, command));
            vec![first_argument(SeccompCmpArgLen::Dword, others)?]
        }
    };
    let always = REFUSED.iter().map(|call| (*call, Vec::new()));
    Ok(always
        .chain([(libc::SYS_clone, clone), (libc::SYS_bpf, bpf)])
        .collect())
}

/// A rule for calls whose first argument meets all conditions.
fn first_argument<const N: usize>(
    length: SeccompCmpArgLen,
    conditions: [(SeccompCmpOp, u64); N],
) -> Result<SeccompRule, String> {
    let conditions = conditions
        .into_iter()
        .map(|(operator, value)| SeccompCondition::new(0, length.clone(), operator, value));
    let conditions = conditions.collect::<Result<Vec<_>, _>>();
    conditions
        .and_then(SeccompRule::new)
        .map_err(|error| error.to_string())
}

fn compile(rules: Rules, error: libc::c_int) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(
        rules.into_iter().collect(),
        SeccompAction::Allow,
        refuse,
        arch,
    )
    .and_then(BpfProgram::try_from)
    .map_err(|error| error.to_string())
}

/// Refuses the calls of x86-64's second ABI, x32: the same ones under other numbers, with a bit set
/// (`__X32_SYSCALL_BIT` of `asm/unistd.h`) that no number of any architecture's first ABI has.
fn other_numbers() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    const NUMBER: u32 = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let instruction = |code: u32, jt, jf, k| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let answer = |what| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, what);
    vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NUMBER),
        instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, X32_BIT),
        answer(libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
        answer(libc::SECCOMP_RET_ALLOW),
    ]
}

/// Installs a filter in all threads. Not seccompiler's own function: before Linux 5.16 a filter slowed all memory accesses
/// down (SSBD) unless it was installed with `SPEC_ALLOW`, and this program executes no code of others.
fn install(program: &BpfProgram) -> io::Result<()> {
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    let described = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: seccompiler's instructions have the layout of the kernel's `sock_filter`; the kernel copies `len` of them.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::c_long::from(libc::SECCOMP_SET_MODE_FILTER),
            flags,
            &raw const described,
        )
    };
    match done {
        0 => Ok(()),
        // With TSYNC, the number of a thread that has another filter.
        1.. => Err(io::Error::other("a thread has a filter of its own")),
        _ => Err(io::Error::last_os_error()),
    }
}
