"""Questions of servers to the user of a call: what may be asked, and how it is answered."""
