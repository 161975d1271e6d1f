"""OAuth logins at servers: tokens, the browser's callback, and the SDK's flow."""
