// SPDX-License-Identifier: Apache-2.0
//! A confined program: what it can still do and what not. Each test runs itself again as a child, because nobody can undo it.

use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use weir_privileges::{ATTACH_PROGRAMS, Files, NOTHING, OPEN_PORTS, confine};

type Tested = Result<(), Box<dyn Error>>;

/// Set in the child: the folder that it may write.
const FOLDER: &str = "WEIR_TEST_FOLDER";

/// Runs `body` with a folder of its own in a child process, under the name of the test that calls this.
fn in_child(test: &str, body: impl FnOnce(&Path) -> Tested) -> Tested {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return body(Path::new(&folder));
    }
    let folder = tempfile::tempdir()?;
    let done = Command::new(std::env::current_exe()?)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder.path())
        .output()?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        done.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(said.contains("1 passed"), "no such test: {said}");
    Ok(())
}

/// A line of `/proc/thread-self/status`.
fn status(name: &str) -> Result<String, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/status")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(line.ok_or(format!("no {name}"))?.trim().to_owned())
}

fn capabilities(name: &str) -> Result<u64, Box<dyn Error>> {
    Ok(u64::from_str_radix(&status(name)?, 16)?)
}

#[test]
fn only_the_capabilities_named_are_left_and_none_can_be_gained() -> Tested {
    in_child(
        "only_the_capabilities_named_are_left_and_none_can_be_gained",
        |_| {
            let before = capabilities("CapPrm")?;
            confine(OPEN_PORTS, &Files::Below(Vec::new()));
            let kept = before & OPEN_PORTS.bits();
            assert_eq!(capabilities("CapPrm")?, kept);
            assert_eq!(capabilities("CapEff")? & !kept, 0);
            assert_eq!(capabilities("CapInh")?, 0);
            assert_eq!(capabilities("CapAmb")?, 0);
            if before != 0 {
                assert_eq!(capabilities("CapBnd")? & !OPEN_PORTS.bits(), 0);
            }
            assert_eq!(status("NoNewPrivs")?, "1");
            assert_eq!(status("Seccomp")?, "2");
            Ok(())
        },
    )
}

#[test]
fn files_are_replaced_beside_the_named_one_and_opened_nowhere_else() -> Tested {
    in_child(
        "files_are_replaced_beside_the_named_one_and_opened_nowhere_else",
        |folder| {
            let (elsewhere, stats) = (tempfile::tempdir()?, folder.join("stats.json"));
            let open_already = fs::File::open("/etc/passwd")?;
            let said = confine(NOTHING, &Files::beside([stats.as_path()])).to_string();
            if said.contains("no Landlock") {
                weir_skipped::skip("kernel: no Landlock");
                return Ok(());
            }
            for _ in 0..2 {
                fs::write(folder.join("stats.json.tmp"), "{}")?;
                fs::rename(folder.join("stats.json.tmp"), &stats)?;
            }
            assert_eq!(fs::read_to_string(&stats)?, "{}");
            assert!(open_already.metadata()?.len() > 0);
            for refused in [
                fs::read("/etc/passwd").map(drop),
                fs::write(elsewhere.path().join("file"), "x"),
                fs::create_dir(folder.join("sub")),
                std::os::unix::fs::symlink("/etc", folder.join("link")),
            ] {
                let kind = refused.map_err(|error| error.kind());
                assert_eq!(kind, Err(ErrorKind::PermissionDenied));
            }
            Ok(())
        },
    )
}

#[test]
fn a_folder_that_others_make_later_can_be_written() -> Tested {
    in_child("a_folder_that_others_make_later_can_be_written", |folder| {
        let stats = folder.join("later").join("stats.json");
        let (ask, asked) = std::sync::mpsc::channel::<std::path::PathBuf>();
        let (done, made) = std::sync::mpsc::channel();
        // Not confined: it has begun before.
        let other = std::thread::spawn(move || {
            let folder = asked.recv().ok()?;
            done.send(fs::create_dir(folder).is_ok()).ok()
        });
        confine(NOTHING, &Files::beside([stats.as_path()]));
        assert!(fs::write(&stats, "{}").is_err());
        ask.send(folder.join("later"))?;
        assert!(made.recv()?);
        fs::write(&stats, "{}")?;
        other.join().map_err(|_| "the other thread panicked")?;
        Ok(())
    })
}

#[test]
fn programs_and_namespaces_are_refused_and_threads_and_sockets_are_not() -> Tested {
    in_child(
        "programs_and_namespaces_are_refused_and_threads_and_sockets_are_not",
        |_| {
            // A file system in which the child could still find the program: the refusal is the system call's.
            let said = confine(NOTHING, &Files::Any).to_string();
            assert!(said.contains("system calls refused"), "{said}");
            let started = Command::new("/bin/true").status();
            let kind = started.map(drop).map_err(|error| error.kind());
            assert_eq!(kind, Err(ErrorKind::PermissionDenied));
            // SAFETY: unshare takes flags and touches no memory.
            let refused = unsafe { libc::unshare(libc::CLONE_NEWUSER) };
            assert_eq!(refused, -1);
            assert_eq!(
                std::io::Error::last_os_error().raw_os_error(),
                Some(libc::EPERM)
            );
            // SAFETY: as a call without a new stack is a fork, the child of a success would be ended at once.
            let cloned = unsafe {
                libc::syscall(
                    libc::SYS_clone,
                    libc::CLONE_NEWUSER | libc::SIGCHLD,
                    0,
                    0,
                    0,
                    0,
                )
            };
            if cloned == 0 {
                // SAFETY: ends the child.
                unsafe { libc::_exit(0) };
            }
            assert_eq!(cloned, -1, "clone made a user namespace");
            assert_eq!(std::thread::spawn(|| 7).join().ok(), Some(7));
            std::net::UdpSocket::bind("127.0.0.1:0")?;
            Ok(())
        },
    )
}

/// The error of a command of bpf(2) that is given nothing to work on.
fn bpf(command: libc::c_int) -> Option<i32> {
    // SAFETY: the attributes are zeros, of which the kernel reads no more than their size.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, [0_u64; 16].as_ptr(), 128) };
    assert_eq!(result, -1);
    std::io::Error::last_os_error().raw_os_error()
}

#[test]
fn a_program_that_was_loaded_before_can_be_attached_and_no_other_be_loaded() -> Tested {
    const MAP_UPDATE_ELEM: libc::c_int = 2;
    const LINK_CREATE: libc::c_int = 28;
    const PROG_GET_NEXT_ID: libc::c_int = 11;
    const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
    in_child(
        "a_program_that_was_loaded_before_can_be_attached_and_no_other_be_loaded",
        |_| {
            if bpf(OBJ_GET_INFO_BY_FD) == Some(libc::EPERM) {
                weir_skipped::skip("user: bpf(2) is only for root here");
                return Ok(());
            }
            confine(OPEN_PORTS | ATTACH_PROGRAMS, &Files::Below(Vec::new()));
            for allowed in [MAP_UPDATE_ELEM, LINK_CREATE] {
                assert_ne!(bpf(allowed), Some(libc::EPERM), "{allowed}");
            }
            for refused in [OBJ_GET_INFO_BY_FD, PROG_GET_NEXT_ID] {
                assert_eq!(bpf(refused), Some(libc::EPERM), "{refused}");
            }
            // Without the capability, nothing of it.
            confine(NOTHING, &Files::Below(Vec::new()));
            assert_eq!(bpf(MAP_UPDATE_ELEM), Some(libc::EPERM));
            Ok(())
        },
    )
}

#[test]
fn a_new_thread_is_confined_as_the_one_that_started_it() -> Tested {
    in_child(
        "a_new_thread_is_confined_as_the_one_that_started_it",
        |_| {
            confine(NOTHING, &Files::Below(Vec::new()));
            let seen = std::thread::spawn(|| {
                let privileges = capabilities("CapPrm").map_err(|error| error.to_string());
                (
                    privileges,
                    fs::read("/etc/passwd")
                        .map(drop)
                        .map_err(|error| error.kind()),
                )
            });
            let (privileges, read) = seen.join().map_err(|_| "the thread panicked")?;
            assert_eq!(privileges, Ok(0));
            assert_eq!(read, Err(ErrorKind::PermissionDenied));
            Ok(())
        },
    )
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_x32_numbers_of_refused_calls_are_refused_too() -> Tested {
    in_child("the_x32_numbers_of_refused_calls_are_refused_too", |_| {
        confine(NOTHING, &Files::Below(Vec::new()));
        // __X32_SYSCALL_BIT of asm/unistd.h; ptrace and unshare have numbers 521 and 272 there.
        for number in [521, 272] {
            // SAFETY: a system call whose arguments are no pointers.
            let done = unsafe { libc::syscall(0x4000_0000 | number, 0, 0, 0, 0) };
            let error = std::io::Error::last_os_error();
            assert_eq!((done, error.raw_os_error()), (-1, Some(libc::EPERM)));
        }
        Ok(())
    })
}
